"""Advice on the request of a submitted job: the request in the scheduler's words, and the use of similar jobs."""
