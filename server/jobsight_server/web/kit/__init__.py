"""Shared by all pages and routes: context, access, parameters, units, errors."""
