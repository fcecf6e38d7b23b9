"""Jobs given the memory that they need instead of what they request (README.md)."""
