"""Sums of jobs by day, week and month: added to as jobs are learned, and read."""
