"""Jobs accepted into gaps shorter than they request (README.md)."""
