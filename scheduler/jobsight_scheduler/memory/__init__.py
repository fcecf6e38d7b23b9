"""Clusters whose nodes differ in memory: who may run where, and what happens to a job that needs more than it got."""
