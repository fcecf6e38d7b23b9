"""Figures of schedules, and means with their certainty."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Floats
from jobsight_scheduler.table import JobTable


def interval(values: Floats, confidence: float = 0.95) -> list[float | None]:
    """Mean, and lower and upper end of its confidence interval (Student); None where there are too few values."""
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


SIZES = (1, 4, 16, 64, 256, 1024)
"""Upper ends of the size classes, in processors."""


def schedule_figures(table: JobTable, capacity: int, counts: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Return all figures of one schedule, in the shape that ``--json`` prints; ValueError for a table without jobs.

    Waits are of the jobs that count, by default all; makespan and utilisation of all. If some do not count, which fill
    the machine, the utilisation is that from the first to the last submission of those that do.
    """
    if not len(table):
        raise ValueError("a schedule without jobs has no figures")
    counted = table if counts is None else table.only(counts)
    first, end = float(table.submit_s.min()), float(table.end_s.max())
    since, until = float(counted.submit_s.min()), float(counted.submit_s.max())
    if len(counted) == len(table) or since == until:
        since, until = first, end
    held_s = table.end_s - table.start_s
    within_s = np.maximum(np.minimum(table.end_s, until) - np.maximum(table.start_s, since), 0.0)
    useful_s = table.run_s * within_s / np.where(held_s > 0.0, held_s, 1.0)
    capacity_s = capacity * (until - since)
    return {
        **_of_jobs(counted),
        "makespan_s": end - first,
        "useful_utilisation": float(table.processors @ useful_s) / capacity_s,
        "occupied_utilisation": float(table.processors @ within_s) / capacity_s,
    }


def by_user(table: JobTable) -> dict[str, dict[str, Any]]:
    """Return the figures of each user's jobs, users with the most jobs first; ``-`` if the user is unknown."""
    users, counts = np.unique(table.user, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {user: _of_jobs(table.only(table.user == user)) for user in users[order].tolist()}


def by_size(table: JobTable) -> dict[str, dict[str, Any]]:
    """Return the figures of each size class that has jobs."""
    found = {}
    for low, high in zip((0, *SIZES), (*SIZES, np.inf), strict=True):
        chosen = (table.processors > low) & (table.processors <= high)
        if chosen.any():
            name = f"> {low}" if high == np.inf else "1" if high == 1 else f"{low + 1}-{high:.0f}"
            found[name] = _of_jobs(table.only(chosen))
    return found


def _of_jobs(table: JobTable) -> dict[str, Any]:
    wait, slowdown = table.wait_s, table.bounded_slowdown
    return {
        "jobs": len(table),
        "mean_wait_s": float(wait.mean()),
        "max_wait_s": float(wait.max()),
        "mean_turnaround_s": float((table.end_s - table.submit_s).mean()),
        "mean_bounded_slowdown": float(slowdown.mean()),
        "median_bounded_slowdown": float(np.median(slowdown)),
    }


RESAMPLES = 4000
_ALIKE = 1e-10  # squares of differences below, as a share of what they are of, are none
_AT_ONCE = 500  # resamples: a product of large matrices wakes threads that cost more than it does


def resampled(
    values: NDArray[Any], group: NDArray[np.int64], per: NDArray[Any] | None = None, confidence: float = 0.95
) -> list[float | None]:
    """Return the mean of ``values``, shape (n,), or their sum by that of ``per``, and the ends of its confidence
    interval: None for 0 by 0, and as of ``resampled_each``. What happens within a group is not independent.
    """
    sums, counts = np.bincount(group, values), np.bincount(group, per)
    if not counts.sum():
        return [None, None, None]
    ((mean, low, high),) = resampled_each(sums[None], counts, confidence)
    return [mean, max(0.0, low) if low is not None and values.min() >= 0.0 else low, high]


def resampled_each(
    sums: NDArray[Any], counts: NDArray[Any], confidence: float = 0.95, resamples: int = RESAMPLES
) -> list[tuple[float, float | None, float | None]]:
    """Return the sum of each row of ``sums``, shape (rows, groups), by that of ``counts``, shape (groups,), and the
    ends of its confidence interval: None where so few groups differ from the others that they are not known.

    Whole groups are resampled, the same for all rows. Each mean counts in its own standard errors, as a few long groups
    decide both (bootstrap-t: Efron and Tibshirani, An introduction to the bootstrap, 1993, 12.5).
    """
    means = sums.sum(axis=1) / counts.sum()
    rest = sums - means[:, None] * counts
    errors = np.sqrt((rest * rest).sum(axis=1)) / counts.sum()
    drawn = _drawn(np.concatenate([counts[None], counts[None] ** 2, rest, rest * rest, rest * counts]), resamples)
    below, weights = drawn[:, :1], drawn[:, 1:2]
    apart, squares, crossed = np.split(drawn[:, 2:], 3, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = apart / below
        left = squares - 2.0 * apart * crossed + apart * apart * weights
        apart *= below / np.sqrt(np.where(left > _ALIKE * squares, left, 0.0))  # infinite where all drawn are alike
    found: list[tuple[float, float | None, float | None]] = []
    ends = 0.5 - confidence / 2.0, 0.5 + confidence / 2.0
    for mean, error, of, scale in zip(means.tolist(), errors.tolist(), apart.T, np.abs(sums).max(axis=1), strict=True):
        low, high = -np.inf, np.inf
        if len(counts) > 1 and error * counts.sum() <= np.sqrt(_ALIKE) * scale:
            low = high = 0.0
        elif len(counts) > 1:
            low, high = np.quantile(of[~np.isnan(of)], ends, method="nearest").tolist()
        is_known = np.isfinite(low) and np.isfinite(high)
        found.append((mean, mean - high * error, mean - low * error) if is_known else (mean, None, None))
    return found


def _drawn(sums: Floats, resamples: int) -> Floats:
    """Return the sums of each row, shape (rows, groups), over the groups of each resample, (resamples, rows)."""
    draws = _draws(sums.shape[1], resamples)
    return np.concatenate([draws[at : at + _AT_ONCE] @ sums.T for at in range(0, resamples, _AT_ONCE)])


@lru_cache(2)  # the same for as many groups, at a byte each for a draw
def _draws(groups: int, resamples: int) -> NDArray[np.uint8]:
    """Return how often each group is drawn in each resample."""
    random = np.random.default_rng(0)
    drawn = (random.integers(0, groups, groups) for _ in range(resamples))
    return np.array([np.bincount(each, minlength=groups) for each in drawn], dtype=np.uint8)
