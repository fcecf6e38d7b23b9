"""Student's confidence interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def interval(values: Floats, confidence: float = 0.95) -> list[float | None]:
    """Mean, and lower and upper end of its confidence interval (Student); None for what cannot be said."""
    if np.isnan(values).any():
        return [None, None, None]
    mean = float(values.mean())
    if len(values) < 2:
        return [mean, None, None]
    if not np.ptp(values):
        return [mean, mean, mean]
    from statsmodels.stats.weightstats import DescrStatsW  # takes a second to load

    low, high = DescrStatsW(values).tconfint_mean(1.0 - confidence)
    return [mean, float(low), float(high)]
