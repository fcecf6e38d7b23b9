"""Ingests batches of samples: decode, check, correct the counters, commit in groups."""

SAMPLES = "/api/v1/samples"
"""Where the writer takes batches."""
