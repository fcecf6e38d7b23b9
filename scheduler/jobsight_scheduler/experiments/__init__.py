"""Reproducible experiments: their runs, the result of each, and the conclusions."""
