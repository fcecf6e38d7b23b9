"""Clusters whose nodes differ in memory: where jobs may run, and how a job fails that needs more than it got."""
