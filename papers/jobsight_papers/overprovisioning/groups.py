"""Similarity groups of a trace: requests over use, and the similarity of the jobs of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, numbered
from jobsight_papers.overprovisioning.cluster.nodes import MIB
from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, similar
from jobsight_papers.overprovisioning.estimators.successive_approximation import SuccessiveApproximation
from jobsight_papers.overprovisioning.results import straight_line
from jobsight_scheduler.workload.canonical import questions_of
from jobsight_scheduler.workload.swf import Trace

BIN = 6.0
"""Width of the bins of ``requested / used`` in Figure 1."""

SIMILARITY_RANGE = 1.1
"""Largest ``maximum use / minimum use`` of a group of similar jobs (10 %)."""

OF_SIZE = 10
"""Least number of jobs of the groups in Figures 3 and 4."""

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def similarity(trace: Trace) -> dict[str, Any]:
    """Return figures 1, 3 and 4 over all jobs of ``trace``."""
    rows = np.arange(len(trace))
    requested = trace["requested_memory_kb"]
    used = trace["memory_kb"]
    group = numbered(map(similar, questions_of(trace, rows)))
    known = (requested > 0) & (used > 0)
    return {
        "jobs": len(trace),
        "groups": int(group.max()) + 1,
        "request_over_use": request_over_use(requested[known] / used[known]),
        "group_sizes": group_sizes(group),
        "gain": gain_by_range(group[known], requested[known], used[known]),
    }


def request_over_use(ratio: NDArray[np.float64]) -> dict[str, Any]:
    """Return figure 1: a histogram of ``requested / used``, and a line through the logarithms of its shares."""
    shares, edges = np.histogram(ratio, np.arange(1.0, max(ratio.max(initial=1.0) + BIN, 3.0), BIN))
    middle = (edges[1:] + edges[:-1]) / 2.0
    there = shares > 0
    percent = 100.0 * shares[there] / len(ratio) if len(ratio) else np.empty(0)
    line: dict[str, Any] = {"slope": None, "intercept": None, "r2": None}
    if there.sum() > 2:
        line = straight_line(middle[there], np.log10(percent))
    return {
        "jobs": len(ratio),
        "at_least_double_share": float(np.mean(ratio >= 2.0)) if len(ratio) else None,
        "largest": float(ratio.max(initial=0.0)),
        "bin_width": BIN,
        "ratio": middle[there].tolist(),
        "percent": percent.tolist(),
        **line,
    }


def group_sizes(group: NDArray[np.int64]) -> dict[str, Any]:
    """Return figure 3: the number of groups, and the share of jobs in groups, of at least a given size."""
    sizes = np.bincount(group)
    return {
        "at_least": list(SIZES),
        "groups_share": [float(np.mean(sizes >= size)) for size in SIZES],
        "jobs_share": [float(sizes[sizes >= size].sum() / sizes.sum()) for size in SIZES],
    }


def gain_by_range(
    group: NDArray[np.int64], requested: NDArray[np.float64], used: NDArray[np.float64]
) -> dict[str, Any]:
    """Return figure 4: the possible gain and the similarity of each group of at least ``OF_SIZE`` jobs."""
    count = int(group.max(initial=-1)) + 1
    most, least, asked = np.zeros(count), np.full(count, np.inf), np.zeros(count)
    np.maximum.at(most, group, used)
    np.minimum.at(least, group, used)
    np.maximum.at(asked, group, requested)
    sizes = np.bincount(group, minlength=count)
    large = sizes >= OF_SIZE
    gain, spread = asked[large] / most[large], most[large] / least[large]
    alike = spread <= SIMILARITY_RANGE
    return {
        "groups": int(large.sum()),
        "similarity_range": SIMILARITY_RANGE,
        "alike_share": float(alike.mean()) if large.any() else None,
        "alike_jobs_share": float(sizes[large][alike].sum() / max(sizes[large].sum(), 1)),
        "range": spread.tolist(),
        "gain": gain.tolist(),
        "group_jobs": sizes[large].tolist(),
    }


def cycles(jobs: MemoryJobs, group: int, capacities_mb: Sequence[float]) -> list[dict[str, float | None]]:
    """Return figure 7: the memory of each job of a group by Algorithm 1, in order, and its use; in MB."""
    capacities = [size * MIB for size in capacities_mb]
    estimator = SuccessiveApproximation(capacities)
    found: list[dict[str, float | None]] = []
    for job in np.flatnonzero(jobs.group == group).tolist():
        requested, used = float(jobs.requested_bytes[job]), float(jobs.used_bytes[job])
        question = jobs.questions[job]
        capacity = estimator.rounded(estimator.estimate(question, requested))
        failed = used > capacity
        estimator.learn(question, requested, AttemptOutcome(min(capacity, requested), capacity, failed))
        found.append({"given_mb": capacity / MIB, "used_mb": None if used != used else used / MIB})
    return found


def example_group(jobs: MemoryJobs) -> int | None:
    """Return the largest group whose jobs request the largest size and use up to between 5 / 32 and 8 / 32 of it.

    Algorithm 1 takes such a group to an eighth, which fails, and back to a quarter. None if there is none of at
    least 5 jobs.
    """
    largest = float(jobs.requested_bytes.max())
    stated = np.array([question.requested_memory_bytes == largest for question in jobs.questions])
    sizes = np.bincount(jobs.group)
    most, whole = np.zeros(len(sizes)), np.ones(len(sizes), dtype=bool)
    np.maximum.at(most, jobs.group, np.nan_to_num(jobs.used_bytes))
    np.logical_and.at(whole, jobs.group, stated)
    fits = whole & (most > largest * 5.0 / 32.0) & (most <= largest / 4.0) & (sizes >= 5)
    return int(np.flatnonzero(fits)[sizes[fits].argmax()]) if fits.any() else None
