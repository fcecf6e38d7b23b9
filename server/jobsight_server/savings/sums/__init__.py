"""Sums of jobs by day and by month: added to as jobs are learned, and read."""
