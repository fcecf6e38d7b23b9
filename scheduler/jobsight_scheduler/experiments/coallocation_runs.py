"""Does a scheduler that asks about bandwidth before it spreads a job over clusters do better?

A run takes a piece of a trace, draws communication for its jobs, and simulates one policy. A seed decides the piece
and what is drawn, so that policies are compared on the same jobs, pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_predictor.forecasters import FIVE
from jobsight_scheduler.coallocation.bandwidth_sources import NO_ERROR, EstimateError, bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.results import figures, job_table
from jobsight_scheduler.coallocation.scheduler import THETA, Scheduler
from jobsight_scheduler.coallocation.sharing import SHARINGS
from jobsight_scheduler.coallocation.synthetic import SyntheticWorkload, draw_communication
from jobsight_scheduler.workload.canonical import Workload, canonical
from jobsight_scheduler.workload.communication import Habits
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.swf import read_swf

CLUSTERS = (32, 32, 32, 32)
UPLINKS_MBPS = (100, 300, 1000)
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
JOBS = 10_000

SENSITIVE_UPLINKS_MBPS = (100, 300)
SENSITIVE_LOAD = 0.8
GOLDEN = (5**0.5 - 1) / 2


HABITS = Habits()
NO_HABITS = Habits(applications=100_000, loyalty=0.0)
"""Every job is of an application never seen before: nothing can be forecast."""


@dataclass(frozen=True, slots=True)
class CoallocationVariant:
    """A policy (where jobs are placed, by whose bandwidths, how links are shared) and the habits of the jobs' users."""

    placement: str
    bandwidth: str = "oracle"
    sharing: str = "proportional"
    error: EstimateError = NO_ERROR
    by_mean: bool = False
    habits: Habits = HABITS


COMPARED: dict[str, CoallocationVariant] = {
    "none": CoallocationVariant("none"),
    "naive": CoallocationVariant("naive"),
    "naive max-min": CoallocationVariant("naive", sharing="max-min"),
    "aware user": CoallocationVariant("aware", "user"),
    "aware predicted": CoallocationVariant("aware", "predicted"),
    "aware oracle": CoallocationVariant("aware", "oracle"),
}
"""The sixth tests whether a network that shares fairly would make all this needless."""

BIASES = (0.5, 2.0, 5.0, 10.0)
NOISES = (0.5, 1.0, 2.0)

SENSITIVITY: dict[str, CoallocationVariant] = {
    **{f"bias x{bias:g}": CoallocationVariant("aware", "oracle", error=EstimateError(bias=bias)) for bias in BIASES},
    **{
        f"noise {noise:g}": CoallocationVariant("aware", "oracle", error=EstimateError(noise=noise)) for noise in NOISES
    },
    **{name: CoallocationVariant("aware", name) for name in FIVE},
    "predicted by means": CoallocationVariant("aware", "predicted", by_mean=True),
    "predicted new jobs": CoallocationVariant("aware", "predicted", habits=NO_HABITS),
}
"""The truth with errors; each of the five forecasters per user; Jobsight trained on bandwidths reduced by contention,
and with nothing to learn from.
"""

VARIANTS = COMPARED | SENSITIVITY


@dataclass(frozen=True, slots=True)
class ExperimentCase:
    """One run. ``jobs`` of 0 is the whole trace."""

    trace: str
    policy: str
    uplink_mbps: float
    load: float
    seed: int
    jobs: int = JOBS
    theta: float = THETA

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything that the result depends on."""
        return tuple(asdict(self).values())


def cases(
    traces: Sequence[str],
    seeds: int,
    uplinks_mbps: Sequence[float] = UPLINKS_MBPS,
    loads: Sequence[float] = LOADS,
    jobs: int = JOBS,
    sensitivity: bool = True,
) -> Iterator[ExperimentCase]:
    """Every run of the sweep and of the sensitivity to wrong estimates, seed by seed, so that a sweep that was

    interrupted has whole seeds. ``none`` uses no uplink, and is run once for each load.
    """
    for seed in range(seeds):
        for trace in traces:
            for load in loads:
                yield ExperimentCase(trace, "none", 0.0, load, seed, jobs)
                for uplink in uplinks_mbps:
                    for policy in list(COMPARED)[1:]:
                        yield ExperimentCase(trace, policy, uplink, load, seed, jobs)
            if sensitivity and SENSITIVE_LOAD in loads:
                for uplink in SENSITIVE_UPLINKS_MBPS:
                    for policy in SENSITIVITY:
                        if uplink in uplinks_mbps:
                            yield ExperimentCase(trace, policy, uplink, SENSITIVE_LOAD, seed, jobs)


def run_case(case: ExperimentCase, file: Path) -> dict[str, Any]:
    """Figures of one run, on the trace in ``file``."""
    variant = VARIANTS[case.policy]
    drawn = _drawn(file, case.jobs, case.load, case.seed, variant.habits)
    clusters = Clusters(CLUSTERS, (1e6 * (case.uplink_mbps or 1.0),) * len(CLUSTERS))
    source = bandwidth_source(variant.bandwidth, drawn, variant.error, case.seed, variant.by_mean)
    simulation = CoSimulation(
        drawn.work,
        clusters,
        lambda requests: Scheduler(requests, PLACEMENTS[variant.placement], source, case.theta),
        SHARINGS[variant.sharing],
    )
    simulation.advance(2 * len(drawn.work.jobs))
    return figures(simulation, job_table(simulation, np.empty(0)))


@lru_cache(maxsize=1)
def _drawn(file: Path, jobs: int, load: float, seed: int, habits: Habits) -> SyntheticWorkload:
    trace, whole = _read(file)
    return draw_communication(trace, scaled_to(piece(whole, jobs, seed), sum(CLUSTERS), load), seed, habits)


@lru_cache(maxsize=2)
def _read(file: Path) -> tuple[Any, Workload]:
    trace = read_swf(file)
    return trace, canonical(trace, max(CLUSTERS))


def piece(whole: Workload, jobs: int, seed: int) -> Workload:
    """``jobs`` consecutive jobs of ``whole``; the pieces of the seeds are spread evenly over it."""
    if not 0 < jobs < len(whole):
        return whole
    first = int(seed * GOLDEN % 1.0 * (len(whole) - jobs + 1))
    part = slice(first, first + jobs)
    return replace(
        whole,
        submit_s=whole.submit_s[part] - whole.submit_s[first],
        run_s=whole.run_s[part],
        estimate_s=whole.estimate_s[part],
        processors=whole.processors[part],
        row=whole.row[part],
    )
