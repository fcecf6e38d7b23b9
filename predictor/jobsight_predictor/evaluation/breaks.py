"""Finds the day since which forecasts are worse: the mean of a daily series drops and stays lower until its end.

One change point by least squares (Hinkley 1970; the first step of binary segmentation) of daily sums. The statistic of
a day is that of Student's test between the jobs from this day on and those before, with the variance between days: jobs
of one day are alike, and counted singly they would turn every bad day into a break. The day with the largest statistic
is the first bad day if all of this holds:

- the statistic is at least ``STRENGTH``; the variance of one job counts as at least ``SMALLEST_NOISE`` squared;
- the mean fell by at least ``DROP``, and the mean of the last ``STILL_JOBS`` jobs is still as low: a recovered series
is not broken;
- there are ``JOBS_BEFORE`` jobs on ``DAYS_BEFORE`` days before and ``JOBS_SINCE`` on ``DAYS_SINCE`` days since.

``tests/predictor/test_breaks.py`` measures the error rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats

DROP = 0.10
STRENGTH = 6.0
SMALLEST_NOISE = 0.05
JOBS_BEFORE, DAYS_BEFORE = 10, 5
JOBS_SINCE, DAYS_SINCE = 5, 2
STILL_JOBS = 10


class Break(NamedTuple):
    """``day`` is the first bad day, with the means ``before`` and ``since`` and the ``strength`` of the test."""

    day: int
    before: float
    since: float
    strength: float


def find_break(days: NDArray[np.int64], jobs: Floats, sums: Floats) -> Break | None:
    """Find the break of one series; None without one.

    Args:
        days: numbers of the days with jobs, rising; shape (n,).
        jobs: jobs on each day, above 0; shape (n,).
        sums: sums of their values, such as accuracies from 0 to 1; shape (n,).
    """
    count = len(days)
    if count < DAYS_BEFORE + DAYS_SINCE:
        return None
    many, total = np.cumsum(jobs), np.cumsum(sums)
    squares = float(np.sum(sums * sums / jobs))  # of the days' means, by jobs
    first = np.arange(DAYS_BEFORE, count - DAYS_SINCE + 1)  # index of a first bad day
    before_n, before_sum = many[first - 1], total[first - 1]
    since_n, since_sum = many[-1] - before_n, total[-1] - before_sum
    before, since = before_sum / before_n, since_sum / since_n
    residual = squares - before_sum * before - since_sum * since
    variance = np.maximum(residual / max(count - 2, 1), SMALLEST_NOISE**2)
    strength = (before - since) / np.sqrt(variance * (1 / before_n + 1 / since_n))
    strength[(before_n < JOBS_BEFORE) | (since_n < JOBS_SINCE)] = -np.inf
    at = int(np.argmax(strength))
    found = Break(int(days[first[at]]), float(before[at]), float(since[at]), float(strength[at]))
    if found.strength < STRENGTH or found.before - found.since < DROP:
        return None
    last = min(int(np.searchsorted(np.cumsum(jobs[::-1]), STILL_JOBS)) + 1, count)  # days with at least so many jobs
    return found if found.before - float(np.sum(sums[-last:]) / np.sum(jobs[-last:])) >= DROP else None
