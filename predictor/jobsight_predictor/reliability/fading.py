"""Decay of observations of a machine, with a half-life of a week."""

from __future__ import annotations

from math import log
from typing import TypeVar

from jobsight_predictor.arrays import Floats

HALF_LIFE_S = 7 * 86_400.0
"""A machine that failed all jobs recovers within a month without any."""

Seconds = TypeVar("Seconds", float, Floats)


def faded(ago_s: Seconds) -> Seconds:
    """Return the remaining weight of an observation ``ago_s`` seconds old, at least 0."""
    left: Seconds = 0.5 ** (ago_s / HALF_LIFE_S)
    return left


def faded_span(from_ago_s: Seconds, to_ago_s: Seconds) -> Seconds:
    """Return the length of a time span in seconds, each weighted by its age."""
    return (faded(to_ago_s) - faded(from_ago_s)) * (HALF_LIFE_S / log(2.0))
