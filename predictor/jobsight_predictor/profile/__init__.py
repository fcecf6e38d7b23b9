"""Forecasts from similar jobs: weights of forecasts, reservations, and their probabilities."""

from __future__ import annotations

from .forecast import PendingForecast
from .profile import JobForecast, MeanError, Profile, RunnerUp

__all__ = ["JobForecast", "MeanError", "PendingForecast", "Profile", "RunnerUp"]
