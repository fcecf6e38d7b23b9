"""Policies, which decide when jobs start: one per file, and a table of them by name."""
