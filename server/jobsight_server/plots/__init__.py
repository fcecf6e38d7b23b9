"""Plots, as reproducible SVG."""
