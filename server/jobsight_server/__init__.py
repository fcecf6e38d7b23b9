"""Collects samples and accounting, stores profiles, answers questions about the next job."""
