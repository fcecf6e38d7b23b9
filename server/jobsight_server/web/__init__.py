"""The pages and the HTTP API under ``/api/v1``: a module per noun, each with its table of routes."""
