"""The database: its tables, and opening, upgrading and reading it."""
