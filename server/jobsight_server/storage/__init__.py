"""The database: its tables, and how it is opened, upgraded and read."""
