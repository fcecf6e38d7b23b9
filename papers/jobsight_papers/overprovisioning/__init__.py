"""Jobs with the memory that they need instead of their requests (README.md)."""
