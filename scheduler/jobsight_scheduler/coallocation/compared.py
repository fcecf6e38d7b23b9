"""Comparison of all placements on the same jobs, and how the jobs' bandwidths vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import exp

import numpy as np
from msgspec import Struct

from jobsight_predictor.arrays import Floats
from jobsight_predictor.question import Question
from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.communication import SyntheticWorkload
from jobsight_scheduler.coallocation.cosimulation import CoSimulation, figures, job_table
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.scheduler import Scheduler
from jobsight_scheduler.figures import interval

CONSTANTS_BPS = (20e6, 40e6, 80e6, 160e6)
PARTS = 10
"""Consecutive parts of a log; their means give the intervals."""


WAYS = (
    ("none", "none", "oracle", 0.0),
    ("naive", "naive", "oracle", 0.0),
    *((f"constant {rate / 1e6:g} Mb/s", "aware", "constant", rate) for rate in CONSTANTS_BPS),
    ("application means", "aware", "application-means", 0.0),
    ("the truth", "aware", "oracle", 0.0),
)
"""Name, placement, source of bandwidths, and the constant in bit/s."""


class Variation(Struct):
    """The ``median_bps`` per processor, and its typical factor of variation (exp of the standard deviation of the
    logarithm) ``over_applications`` of users and ``over_jobs`` of one; None: too few jobs.

    ``busy_correlation`` is Spearman's between bandwidth and the busy share of processors: below 0 if jobs that move
    more data spend more time communicating.
    """

    median_bps: float
    over_applications: float | None
    over_jobs: float | None
    busy_correlation: float | None


class PlacementFigures(Struct):
    """One placement, with ``saturated`` link time and the share of jobs ``spread``.

    ``turnaround_percent`` is compared with ``none``: mean and 95 % interval over consecutive parts of the log.
    """

    placement: str
    turnaround_percent: tuple[float, float | None, float | None]
    saturated: float
    spread: float
    mean_turnaround_s: float


def variation(questions: Sequence[Question], bandwidth_bps: Floats, busy: Floats) -> Variation:
    """Return the variation of ``bandwidth_bps``, which is NaN where unknown, as ``busy`` is; shape (jobs,)."""
    from scipy.stats import spearmanr  # takes half a second to load

    known = np.flatnonzero(np.isfinite(bandwidth_bps) & (bandwidth_bps > 0.0))
    logs = np.log(bandwidth_bps[known])
    kinds = [(questions[job].user, questions[job].application) for job in known.tolist()]
    _, of_job, counts = np.unique([repr(kind) for kind in kinds], return_inverse=True, return_counts=True)
    means = np.bincount(of_job, logs) / counts if len(logs) else np.empty(0)
    freedom = len(logs) - len(means)
    within = float(((logs - means[of_job]) ** 2).sum() / freedom) ** 0.5 if freedom > 0 else None
    both = known[np.isfinite(busy[known])]
    is_measured = len(both) > 2 and np.ptp(bandwidth_bps[both]) > 0.0 and np.ptp(busy[both]) > 0.0
    return Variation(
        median_bps=float(np.median(bandwidth_bps[known])) if len(known) else 0.0,
        over_applications=exp(float(means.std(ddof=1))) if len(means) > 1 else None,
        over_jobs=None if within is None else exp(within),
        busy_correlation=float(spearmanr(bandwidth_bps[both], busy[both]).statistic) if is_measured else None,
    )


def compared(jobs: SyntheticWorkload, clusters: Clusters, done: Callable[[], None]) -> list[PlacementFigures]:
    """Compare the placements; ``done`` is called after each.

    Keeps the constant with the least turnaround.
    """
    parts = np.array_split(np.arange(len(jobs.work.jobs)), min(PARTS, len(jobs.work.jobs)))
    none, rows, constants = np.ones(len(parts)), list[PlacementFigures](), list[PlacementFigures]()
    for name, placement, bandwidth, rate in WAYS:
        source = bandwidth_source(bandwidth, jobs, constant_bps=rate)
        make = partial(Scheduler, placement=PLACEMENTS[placement], bandwidth=source)
        simulation = CoSimulation(jobs.work, clusters, make)
        simulation.advance(2 * len(jobs.work.jobs))
        table = job_table(simulation)
        found = figures(simulation, table)
        took = np.array([(table.end_s - table.submit_s)[part].mean() for part in parts])
        none = took if name == "none" else none
        change, low, high = interval(100.0 * (took / none - 1.0))
        assert change is not None  # no part is empty
        row = PlacementFigures(
            name, (change, low, high), found["saturated"], found["spread"], found["mean_turnaround_s"]
        )
        (constants if bandwidth == "constant" else rows).append(row)
        done()
    return [*rows[:2], min(constants, key=lambda row: row.mean_turnaround_s), *rows[2:]]
