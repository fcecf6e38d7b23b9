"""Forecasters, and the table of all by the name used in answers and settings."""

from __future__ import annotations

from .base import Forecaster
from .decayed_mode import DecayedMode
from .exponential import Exponential
from .locality import Locality
from .means import History, SlidingWindow
from .weighted import Weighted

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
