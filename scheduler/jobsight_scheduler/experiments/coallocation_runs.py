"""Does a scheduler that asks about bandwidth before it spreads a job over clusters do better?

A run takes a block of a trace, draws communication for its jobs, and simulates one policy. A seed decides the block
and what is drawn, so that policies are compared on the same jobs, pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_scheduler.coallocation.bandwidth_sources import bandwidth_source
from jobsight_scheduler.coallocation.clusters import Clusters
from jobsight_scheduler.coallocation.cosimulation import CoSimulation
from jobsight_scheduler.coallocation.placement import PLACEMENTS
from jobsight_scheduler.coallocation.results import figures, job_table
from jobsight_scheduler.coallocation.scheduler import THETA, Scheduler
from jobsight_scheduler.coallocation.sharing import SHARINGS
from jobsight_scheduler.coallocation.synthetic import SyntheticWorkload, draw_communication
from jobsight_scheduler.workload.canonical import Workload, canonical
from jobsight_scheduler.workload.load import scaled_to
from jobsight_scheduler.workload.swf import read_swf

from .coallocation_variants import COMPARED, SENSITIVITY, VARIANTS, CoallocationVariant

CLUSTERS = (32, 32, 32, 32)
UPLINKS_MBPS = (100, 300, 1000)
LOADS = (0.6, 0.8, 0.9)
JOBS = 2_000
BLOCKS = 10

SENSITIVE_UPLINKS_MBPS = (100, 300)
SENSITIVE_LOAD = 0.8


@dataclass(frozen=True, slots=True)
class ExperimentCase:
    """One run. ``seed`` is also the number of the block, of ``blocks`` into which the trace is cut.

    ``jobs`` of 0 is the whole trace, with communication drawn again by each seed.
    """

    trace: str
    policy: str
    uplink_mbps: float
    load: float
    seed: int
    jobs: int = JOBS
    theta: float = THETA
    blocks: int = BLOCKS
    clusters: tuple[int, ...] = CLUSTERS

    @property
    def key(self) -> tuple[Any, ...]:
        """Everything that the result depends on, as JSON values."""
        return (*list(asdict(self).values())[:-1], ",".join(map(str, self.clusters)))


def cases(
    traces: Sequence[str],
    seeds: int,
    uplinks_mbps: Sequence[float] = UPLINKS_MBPS,
    loads: Sequence[float] = LOADS,
    jobs: int = JOBS,
    sensitivity: bool = True,
    clusters: tuple[int, ...] = CLUSTERS,
    policies: Sequence[str] = tuple(COMPARED),
) -> Iterator[ExperimentCase]:
    """Every run of the sweep and of the sensitivity to wrong estimates, seed by seed, so that a sweep that was
    interrupted has whole seeds. With less than ten seeds, the first of ten blocks are used. ``none`` uses no uplink,
    and is run once for each load.
    """
    case = partial(ExperimentCase, jobs=jobs, blocks=max(seeds, BLOCKS), clusters=clusters)
    for seed in range(seeds):
        for trace in traces:
            for load in loads:
                yield case(trace, "none", 0.0, load, seed)
                for uplink in uplinks_mbps:
                    for policy in policies:
                        if policy != "none":
                            yield case(trace, policy, uplink, load, seed)
            if sensitivity and SENSITIVE_LOAD in loads:
                for uplink in SENSITIVE_UPLINKS_MBPS:
                    for policy in SENSITIVITY:
                        if uplink in uplinks_mbps:
                            yield case(trace, policy, uplink, SENSITIVE_LOAD, seed)


def run_case(case: ExperimentCase, file: Path) -> dict[str, Any]:
    """Figures of one run, on the trace in ``file``.

    Raises:
        ValueError: the block has too few jobs, or all of them were submitted at once.
    """
    variant = VARIANTS[case.policy]
    drawn = _drawn(file, case, variant)
    clusters = Clusters(case.clusters, (1e6 * (case.uplink_mbps or 1.0),) * len(case.clusters))
    source = bandwidth_source(variant.bandwidth, drawn, variant.error, case.seed, variant.by_mean, variant.constant_bps)
    simulation = CoSimulation(
        drawn.work,
        clusters,
        lambda requests: Scheduler(requests, PLACEMENTS[variant.placement], source, case.theta),
        SHARINGS[variant.sharing],
    )
    simulation.advance(2 * len(drawn.work.jobs))
    return figures(simulation, job_table(simulation, np.empty(0)))


def _drawn(file: Path, case: ExperimentCase, variant: CoallocationVariant) -> SyntheticWorkload:
    trace, jobs = _block(file, case.jobs, case.load, case.seed, case.blocks, case.clusters)
    return draw_communication(trace, jobs, case.seed, variant.habits, variant.labels)


@lru_cache(maxsize=1)
def _block(
    file: Path, jobs: int, load: float, seed: int, blocks: int, clusters: tuple[int, ...]
) -> tuple[Any, Workload]:
    trace, whole = _read(file, max(clusters))
    return trace, scaled_to(block(whole, jobs, seed, blocks), sum(clusters), load)


@lru_cache(maxsize=2)
def _read(file: Path, largest: int) -> tuple[Any, Workload]:
    trace = read_swf(file)
    return trace, canonical(trace, largest)


def block(whole: Workload, jobs: int, seed: int, blocks: int) -> Workload:
    """The first ``jobs`` jobs, or as many as there are, of block ``seed`` of ``whole``, cut into ``blocks`` of equal
    length: no two blocks have a job in common. All of ``whole`` if ``jobs`` is 0.

    Raises:
        ValueError: less than two jobs in a block.
    """
    if not jobs:
        return whole
    length = len(whole) // blocks
    if length < 2:
        raise ValueError(f"{len(whole)} jobs make no {blocks} blocks of at least two; ask for fewer blocks (seeds)")
    first = seed * length
    part = slice(first, first + min(jobs, length))
    return replace(
        whole,
        submit_s=whole.submit_s[part] - whole.submit_s[first],
        run_s=whole.run_s[part],
        estimate_s=whole.estimate_s[part],
        processors=whole.processors[part],
        row=whole.row[part],
    )
