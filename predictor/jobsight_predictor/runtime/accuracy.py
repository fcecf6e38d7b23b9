"""The distribution of run time / requested time of jobs alike, on a grid of 1 %.

Source: Birkenheuer, Brinkmann and Karl, Risk Aware Overbooking for Commercial Grids (2010), Figures 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobsight_predictor.forecasters import Floats

BINS = 100
"""Steps of the grid over (0, 1]."""

GRID = np.arange(BINS + 1) / BINS


@dataclass(frozen=True, slots=True)
class RuntimeAccuracy:
    """``cdf[k]`` is the probability that a job uses at most k % of its requested time, shape (101,).

    ``cdf[0]`` is 0, ``cdf[100]`` is 1: no job outlives its request. In between, values are interpolated. ``jobs`` is
    the weight of evidence in jobs, ``source`` names the group of jobs that it comes from.
    """

    cdf: Floats
    jobs: float
    source: str

    def within(self, fraction: float | Floats) -> Floats:
        """Probability that a job uses at most ``fraction`` of its requested time; same shape as ``fraction``."""
        return np.asarray(np.interp(fraction, GRID, self.cdf))

    def after(self, fraction_run: float) -> RuntimeAccuracy:
        """The same for a job that has already run for ``fraction_run`` of its requested time.

        A job that has run longer than any before it is expected to use its whole request.
        """
        if fraction_run <= 0.0:
            return self
        before = float(self.within(fraction_run))
        if before >= 1.0 - 1e-12:
            return RuntimeAccuracy(np.where(GRID < 1.0, 0.0, 1.0), self.jobs, self.source)
        cdf = np.clip((self.cdf - before) / (1.0 - before), 0.0, 1.0)
        return RuntimeAccuracy(cdf, self.jobs, self.source)

    def quantiles(self, probabilities: Floats) -> Floats:
        """The fractions that ``probabilities`` of the jobs stay within, same shape; the inverse of ``within``."""
        return np.interp(probabilities, self.cdf, GRID)

    @property
    def mean(self) -> float:
        """Expected fraction of the requested time."""
        return float(np.trapezoid(1.0 - self.cdf, GRID))


def bin_of(ratio: float) -> int:
    """The bin of a ratio, 0..99: bin k holds the ratios in (k %, k + 1 %]; more than 1 counts as 1.

    Raises:
        ValueError: the ratio is negative or not a number.
    """
    if not ratio >= 0.0:
        raise ValueError(f"run / requested time is {ratio}; give a number of at least 0")
    return max(0, int(np.ceil(min(ratio, 1.0) * BINS - 1e-9)) - 1)


def accuracy_of_histogram(histogram: Floats, source: str) -> RuntimeAccuracy:
    """The distribution of jobs counted (or weighed) by ``bin_of``, shape (100,); uniform if there are none."""
    total = float(histogram.sum())
    if total <= 0.0:
        return RuntimeAccuracy(GRID.copy(), 0.0, source)
    cdf = np.concatenate(([0.0], np.cumsum(histogram) / total))
    cdf[-1] = 1.0
    return RuntimeAccuracy(np.clip(cdf, 0.0, 1.0), total, source)


def accuracy_of_ratios(ratios: Floats, source: str = "site", weights: Floats | None = None) -> RuntimeAccuracy:
    """The distribution of ``ratios``, shape (jobs,), weighed by ``weights``; uniform if there are none.

    Raises:
        ValueError: a ratio is negative or not a number.
    """
    if len(ratios) and not bool(np.all(ratios >= 0.0)):
        raise ValueError(f"run / requested time is {ratios[~(ratios >= 0.0)][0]}; give numbers of at least 0")
    bins = np.maximum(np.ceil(np.minimum(ratios, 1.0) * BINS - 1e-9).astype(np.int64) - 1, 0)
    return accuracy_of_histogram(np.bincount(bins, weights, minlength=BINS).astype(np.float64), source)
