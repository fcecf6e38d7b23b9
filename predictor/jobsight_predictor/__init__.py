"""Forecasts what a job will need from what earlier jobs used."""
