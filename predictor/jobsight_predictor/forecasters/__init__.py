"""Forecasters, and the table of all by the name used in answers and settings."""

from __future__ import annotations

from jobsight_predictor.forecasters.base import Forecaster
from jobsight_predictor.forecasters.decayed_mode import DecayedMode
from jobsight_predictor.forecasters.published import Exponential, History, Locality, SlidingWindow, Weighted

FORECASTERS: dict[str, type[Forecaster]] = {
    "history": History,
    "sliding-window": SlidingWindow,
    "weighted": Weighted,
    "locality": Locality,
    "exponential": Exponential,
    "decayed-mode": DecayedMode,
}

FIVE: tuple[str, ...] = ("history", "sliding-window", "weighted", "locality", "exponential")
"""The published five, in their published order (docs/use/definitions.md, The five forecasters)."""
