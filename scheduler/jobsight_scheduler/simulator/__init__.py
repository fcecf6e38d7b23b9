"""Runs of workloads under policies, exact and fast."""
