"""Schedules of other policies than those that the product replays, their check, and a synthetic workload."""
