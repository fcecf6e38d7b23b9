"""Jobs over several clusters: placements compared on whole traces in many scenarios (README.md)."""
