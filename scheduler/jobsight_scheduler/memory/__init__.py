"""Clusters whose nodes differ in memory: which jobs may run where, and what happens if a job needs more than it got."""
