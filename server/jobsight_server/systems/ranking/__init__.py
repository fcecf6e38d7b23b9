"""Reliability of machines: presence, outcomes of jobs, and rank."""
