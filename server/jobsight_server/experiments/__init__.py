"""Runs of experiments: done by many workers, kept as they finish."""
