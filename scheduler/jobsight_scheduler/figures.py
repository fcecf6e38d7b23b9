"""Figures of schedules, and means with their certainty."""

from __future__ import annotations

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
_ROUNDING = 1e-12  # differences below, as a share of the mean, are none


def resampled(values: Floats, group: NDArray[np.int64], per: Floats | None = None) -> list[float | None]:
    """Return the mean of ``values``, shape (n,), or their sum by that of ``per``, and the ends of its 95 % confidence
    interval: None for 0 by 0, and ends None where so few groups differ from the others that they are not known.

    Whole groups are resampled: what happens within one is not independent. Each mean counts in its own standard errors,
    as a few long groups decide both (bootstrap-t: Efron and Tibshirani, An introduction to the bootstrap, 1993, 12.5).
    """
    sums, counts = np.bincount(group, values), np.bincount(group, per)
    if not counts.sum():
        return [None, None, None]
    mean, error = (float(of) for of in _ratio(sums, counts))
    if error <= (rounding := _ROUNDING * abs(mean)):
        return [mean, mean, mean]
    drawn = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    with np.errstate(divide="ignore", invalid="ignore"):
        means, errors = _ratio(sums[drawn], counts[drawn])
        apart = (means - mean) / np.where(errors > rounding, errors, 0.0)  # infinite where all that was drawn is alike
    low, high = np.quantile(apart[~np.isnan(apart)], (0.025, 0.975), method="nearest").tolist()
    if not (np.isfinite(low) and np.isfinite(high)):
        return [mean, None, None]
    least = 0.0 if values.min() >= 0.0 else -np.inf  # of waits, no mean is below 0
    return [mean, max(least, mean - high * error), mean - low * error]


def _ratio(sums: NDArray[Any], counts: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the ratio of the sums over the last axis, and its standard error."""
    below = counts.sum(axis=-1)
    ratio = sums.sum(axis=-1) / below
    rest = sums - ratio[..., None] * counts
    return ratio, np.sqrt((rest * rest).sum(axis=-1)) / below
