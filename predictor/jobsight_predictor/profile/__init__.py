"""Forecasts from similar jobs: weights of forecasts, reservations, and their probabilities."""

from __future__ import annotations

from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.profile import JobForecast, MeanError, Profile, RunnerUp

__all__ = ["JobForecast", "MeanError", "PendingForecast", "Profile", "RunnerUp"]
