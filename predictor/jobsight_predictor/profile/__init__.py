"""Forecasts from similar jobs: weights of forecasts, reservations, and their probabilities."""

from __future__ import annotations

from .profile import Profile

__all__ = ["Profile"]
