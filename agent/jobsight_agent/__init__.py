"""Measures a cluster node and pushes what it read to the collector."""

__version__ = "0.3.0"
