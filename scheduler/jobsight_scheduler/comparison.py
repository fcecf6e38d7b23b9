"""Schedules of the same jobs side by side: their differences, and how certain these are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .table import JobTable

Floats = NDArray[np.float64]

BATCHES = 50
RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of ``other - ours`` over the jobs, and its confidence interval."""

    mean: float
    low: float
    high: float


def compare(ours: JobTable, other: JobTable, confidence: float = 0.95, seed: int = 0) -> dict[str, Difference]:
    """Paired differences of wait, turnaround and bounded slowdown, ``other`` minus ``ours``.

    Jobs that queue together wait together, so single jobs are not independent observations. The jobs are cut into 50
    batches in the order of submission, and batches are resampled (paired bootstrap of batch means). The uncertainty of
    a difference that depends on a rare event, such as an outage every few months, is still understated.

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
    return {name: paired(values, confidence, seed) for name, values in columns.items()}


def differences(ours: JobTable, other: JobTable) -> dict[str, list[float]]:
    """Those of ``compare``, as figures: mean, low and high by ``difference_wait_s`` and so on."""
    return {f"difference_{name}": [d.mean, d.low, d.high] for name, d in compare(ours, other).items()}


def paired(differences: Floats, confidence: float = 0.95, seed: int = 0) -> Difference:
    """Mean of ``differences``, shape (n,), in order of time, with a bootstrap interval over batches of neighbours."""
    batches = np.array_split(differences, min(BATCHES, len(differences)))
    sums, counts = np.array([batch.sum() for batch in batches]), np.array([len(batch) for batch in batches])
    drawn = np.random.default_rng(seed).integers(0, len(batches), (RESAMPLES, len(batches)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(means, (tail, 1.0 - tail))
    return Difference(float(differences.mean()), float(low), float(high))
