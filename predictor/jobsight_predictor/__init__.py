"""Forecasts a job's needs from the use of earlier jobs."""
