"""Runs of experiments: executed by many workers, stored as they finish."""
