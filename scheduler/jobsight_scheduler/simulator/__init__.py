"""Runs workloads under policies, exactly and quickly."""
