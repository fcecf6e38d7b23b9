"""Creates the tables of a new database, and upgrades those of released ones; above everything that it touches."""
