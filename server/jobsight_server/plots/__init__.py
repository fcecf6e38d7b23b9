"""Pictures, as SVG that is the same each time."""
