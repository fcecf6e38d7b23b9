"""Measures a cluster node and pushes its readings to the collector."""

__version__ = "0.4.0"
