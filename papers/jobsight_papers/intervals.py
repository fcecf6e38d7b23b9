"""Means over seeds with their confidence intervals; differences paired by seed, and their p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_scheduler import figures

Interval = Mapping[str, float | None]


def interval(values: Sequence[float | None]) -> dict[str, float | None]:
    """Return the mean of the known values, and its 95 % confidence interval (Student); None for too few values."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    mean, low, high = figures.interval(known) if len(known) else (None, None, None)
    return {"mean": mean, "low": low, "high": high}


def interval_text(found: Interval, scale: float = 1.0, digits: int = 1) -> str:
    """Return both ends, ``scale`` times; empty without an interval."""
    low, high = found["low"], found["high"]
    return "" if low is None or high is None else f"{scale * low:.{digits}f} to {scale * high:.{digits}f}"


def changes(ours: Mapping[int, Any], other: Mapping[int, Any], figure: str, seeds: Sequence[int]) -> Floats:
    """Return the per cent by which ``figure`` of ``ours`` exceeds that of ``other``, by seed, shape (seeds,).

    NaN where the other's is 0 or unknown.
    """
    pairs = np.array([[ours[seed][figure], other[seed][figure]] for seed in seeds], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 100.0 * (pairs[:, 0] / pairs[:, 1] - 1.0)
    return np.where(np.isfinite(found), found, np.nan)


def p_value(values: Floats) -> float | None:
    """Return the two-sided p-value of the mean being 0 (Student); None for fewer than two values."""
    if len(values) < 2 or np.isnan(values).any():
        return None
    if not np.ptp(values):
        return 0.0 if values[0] else 1.0
    from statsmodels.stats.weightstats import DescrStatsW  # slow to load: a second

    return float(DescrStatsW(values).ttest_mean(0.0)[1])


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the p-values corrected so that any false one among all is as likely as a single one (Holm 1979)."""
    known = [p for p in p_values if p is not None]
    if not known:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests  # slow to load: a second

    corrected = iter(multipletests(known, method="holm")[1].tolist())
    return [None if p is None else next(corrected) for p in p_values]
