"""Statistics of differences that are paired by seed: intervals, p-values, and their correction for many cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import DescrStatsW

Floats = NDArray[np.float64]


def changes(ours: Mapping[int, Any], other: Mapping[int, Any], figure: str, seeds: Sequence[int]) -> Floats:
    """Per cent by which ``figure`` of ``ours`` exceeds that of ``other``, by seed, shape (seeds,).

    NaN where the other's is 0 or unknown.
    """
    pairs = np.array([[ours[seed][figure], other[seed][figure]] for seed in seeds], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = 100.0 * (pairs[:, 0] / pairs[:, 1] - 1.0)
    return np.where(np.isfinite(found), found, np.nan)


def interval(values: Floats, confidence: float = 0.95) -> list[float | None]:
    """Mean, and lower and upper end of its confidence interval (Student); None for what cannot be said."""
    if np.isnan(values).any():
        return [None, None, None]
    mean = float(values.mean())
    if len(values) < 2:
        return [mean, None, None]
    if not np.ptp(values):
        return [mean, mean, mean]
    low, high = DescrStatsW(values).tconfint_mean(1.0 - confidence)
    return [mean, float(low), float(high)]


def p_value(values: Floats) -> float | None:
    """Two-sided p-value of the mean being 0 (Student); None for less than two values."""
    if len(values) < 2 or np.isnan(values).any():
        return None
    if not np.ptp(values):
        return 0.0 if values[0] else 1.0
    return float(DescrStatsW(values).ttest_mean(0.0)[1])


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values corrected so that the chance of any false one among all is that of a single one (Holm 1979)."""
    known = [p for p in p_values if p is not None]
    if not known:
        return list(p_values)
    corrected = iter(multipletests(known, method="holm")[1].tolist())
    return [None if p is None else next(corrected) for p in p_values]
