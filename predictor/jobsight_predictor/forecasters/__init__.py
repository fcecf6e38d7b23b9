"""Forecasters, one per file, and the table of all by the name used in answers and settings."""

from __future__ import annotations

from .base import LARGEST, Floats, Forecaster, checked
from .decayed_mode import DecayedMode
from .exponential import Exponential, UnclippedExponential
from .history import History
from .locality import Locality
from .sliding_window import SlidingWindow
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

__all__ = [
    "FIVE",
    "FORECASTERS",
    "LARGEST",
    "DecayedMode",
    "Exponential",
    "Floats",
    "Forecaster",
    "History",
    "Locality",
    "SlidingWindow",
    "UnclippedExponential",
    "Weighted",
    "checked",
]
