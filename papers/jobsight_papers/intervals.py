"""Means over seeds with their confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jobsight_scheduler import paired

Interval = Mapping[str, float | None]


def interval(values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean of the known values, and its 95 % confidence interval (Student); None where it takes more values."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    mean, low, high = paired.interval(known) if len(known) else (None, None, None)
    return {"mean": mean, "low": low, "high": high}


def interval_text(found: Interval, scale: float = 1.0, digits: int = 1) -> str:
    """Both ends, ``scale`` times; empty without an interval."""
    low, high = found["low"], found["high"]
    return "" if low is None or high is None else f"{scale * low:.{digits}f} to {scale * high:.{digits}f}"
