"""Emulates a whole site: its users, jobs, nodes and accounting log, sent the ordinary way, and the truth about it."""
