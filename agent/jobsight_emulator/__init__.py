"""Emulates a whole site: users, jobs, nodes and accounting log, sent like real ones, with the true values."""
