"""Measured use of jobs from a site's own monitoring: Prometheus and servers with its HTTP API."""
