"""Readings of nodes: as they were sent, as columns of counters, summed up, and deleted when they are old."""
