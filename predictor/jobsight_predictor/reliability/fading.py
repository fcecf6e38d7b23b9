"""How much of what was seen of a machine still counts: half after a week."""

from __future__ import annotations

from math import log
from typing import TypeVar

from .resource_vector import Floats

HALF_LIFE_S = 7 * 86_400.0
"""A machine that failed all jobs recovers within a month without any."""

Seconds = TypeVar("Seconds", float, Floats)


def faded(ago_s: Seconds) -> Seconds:
    """The share that is left after so long, at least 0 seconds."""
    left: Seconds = 0.5 ** (ago_s / HALF_LIFE_S)
    return left


def faded_span(from_ago_s: Seconds, to_ago_s: Seconds) -> Seconds:
    """The seconds of a stretch of time, each counting what is left of it."""
    return (faded(to_ago_s) - faded(from_ago_s)) * (HALF_LIFE_S / log(2.0))
