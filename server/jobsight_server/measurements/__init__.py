"""What jobs used, from a site's own monitoring: Prometheus and what speaks its HTTP API."""
