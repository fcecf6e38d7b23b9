"""Ingests batches of samples: decode, check, correct the counters, commit in groups."""
