"""Differences between schedules of the same jobs, with their certainty."""

from __future__ import annotations

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_scheduler.figures import resampled
from jobsight_scheduler.table import JobTable

BATCHES = 50


def differences(ours: JobTable, other: JobTable) -> dict[str, list[float | None]]:
    """Return the paired differences of wait, turnaround and bounded slowdown, ``other`` minus ``ours``, by
    ``difference_wait_s`` and so on: each its mean, and the ends of its 95 % confidence interval.

    Raises:
        ValueError: the tables are not of the same jobs.
    """
    if len(ours) != len(other) or not np.array_equal(ours.processors, other.processors):
        raise ValueError(f"schedules of {len(ours)} and {len(other)} jobs are not of the same workload")
    columns = {
        "wait_s": other.wait_s - ours.wait_s,
        "turnaround_s": (other.end_s - other.submit_s) - (ours.end_s - ours.submit_s),
        "bounded_slowdown": other.bounded_slowdown - ours.bounded_slowdown,
    }
    return {f"difference_{name}": paired(values) for name, values in columns.items()}


def paired(values: Floats) -> list[float | None]:
    """Return the mean of differences in order of time, shape (n,), and the ends of its 95 % confidence interval.

    Jobs that queue together wait together, so single jobs are not independent observations: the jobs are cut into 50
    batches of neighbours, and batches are resampled (paired bootstrap of batch means). Rare events, such as an outage
    every few months, make a difference less certain than the interval shows.
    """
    batches = np.array_split(values, min(BATCHES, len(values)))
    return resampled(values, np.repeat(np.arange(len(batches)), [len(batch) for batch in batches]))
