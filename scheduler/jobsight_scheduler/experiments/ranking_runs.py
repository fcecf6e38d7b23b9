"""Which machine of a campus grid should a job start on, so that its owner does not evict it?

A run draws machines, owners and the jobs of one published set from its seed, and simulates one rank on them; ranks are
compared on the same draws, pair by pair. No rank knows how they were drawn.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jobsight_predictor.reliability.exposure import HOUR_S, Exposure
from jobsight_predictor.reliability.machine_facts import fact_table
from jobsight_predictor.reliability.resource_vector import VectorSettings
from jobsight_predictor.reliability.survival import SurvivalSettings
from jobsight_scheduler.campus.choosers.base import Chooser, GridView, new_view
from jobsight_scheduler.campus.choosers.baselines import AvailabilityOracle, FastestFirst, FirstCome, Lazy, Random
from jobsight_scheduler.campus.choosers.history import (
    Figure,
    HistoryRank,
    fewest_evictions,
    longest_last,
    longest_mean,
    longest_present,
    share_of_time,
)
from jobsight_scheduler.campus.choosers.survival import SurvivalRank, SurvivalVariant
from jobsight_scheduler.campus.choosers.vector import ResourceVectorRank
from jobsight_scheduler.campus.cluster import run_cluster, with_background
from jobsight_scheduler.campus.failure_trace import FailureTrace, read_failure_trace
from jobsight_scheduler.campus.grid import CampusGrid, OnEviction
from jobsight_scheduler.campus.job_sets import SETS, CampusJobs, draw_jobs
from jobsight_scheduler.campus.machines import CampusMachines, campus_machines
from jobsight_scheduler.campus.owners import Availability, OwnerSettings, draw_availability

LOAD = 0.3
LOADS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
THIRDS = (1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0)
HALVES = (0.5, 0.5, 0.0)
COMPARED = ("first-come", "grv", "survival")
HISTORY_S = 28 * 24 * HOUR_S
MARGIN_S = 20 * 24 * HOUR_S
CURVE_SEEDS = 4

Owners = Literal["departments", "uniform", "prefer-fast"]
OWNERS: dict[Owners, OwnerSettings] = {
    "departments": OwnerSettings(),
    "uniform": OwnerSettings(closed_share=1.0),
    "prefer-fast": OwnerSettings(prefer_fast=3.0),
}
SPEED_SIGMA: dict[Owners, float] = {"departments": 0.0, "uniform": 0.0, "prefer-fast": 0.4}
EXCHANGED_WORK_H = 5.2
"""Mean work of set 4 if its rows were exchanged in print: fitted to the 67.58 % that first come then has."""


@dataclass(frozen=True, slots=True)
class RankingCase:
    """One run. ``mean_work_h`` of None is the set's; ``trace`` a file of the Failure Trace Archive, whose machines
    stand in for the campus's.
    """

    set: int
    rank: str
    weights: tuple[float, float, float] = THIRDS
    load: float = LOAD
    seed: int = 0
    owners: Owners = "departments"
    on_eviction: OnEviction = "restart"
    mean_work_h: float | None = None
    trace: str | None = None

    @property
    def of_seed(self) -> RankingCase:
        """The same whatever the seed."""
        return replace(self, seed=0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a seed decides."""

    machines: CampusMachines
    jobs: CampusJobs
    availability: Availability


MakeChooser = Callable[[GridView, Drawn, RankingCase], Chooser]


def _vector(raw: bool = False) -> MakeChooser:
    return lambda view, _, case: ResourceVectorRank(view, VectorSettings(weights=case.weights, raw_capacity=raw))


def _history(figure: Figure) -> MakeChooser:
    return lambda view, drawn, _: HistoryRank(view, figure, observed(drawn.availability, float(drawn.jobs.submit_s[0])))


def _survival(variant: SurvivalVariant) -> MakeChooser:
    def make(view: GridView, drawn: Drawn, _: RankingCase) -> Chooser:
        begin_s = float(drawn.jobs.submit_s[0])
        return SurvivalRank(view, variant, drawn.jobs.predicted_s, observed(drawn.availability, begin_s), begin_s)

    return make


RANKS: dict[str, MakeChooser] = {
    "first-come": lambda view, *_: FirstCome(view),
    "fastest-first": lambda view, *_: FastestFirst(view),
    "random": lambda view, _, case: Random(view, np.random.default_rng((case.seed, 1))),
    "eager": lambda view, *_: FirstCome(view),
    "lazy": lambda view, *_: Lazy(view),
    "grv": _vector(),
    "grv-raw": _vector(raw=True),
    "fewest-evictions": _history(fewest_evictions),
    "longest-present": _history(longest_present),
    "longest-last": _history(longest_last),
    "longest-mean": _history(longest_mean),
    "share-of-time": _history(share_of_time),
    "survival": _survival(SurvivalVariant()),
    "survival-speed": _survival(SurvivalVariant(by_speed=True)),
    "survival-no-age": _survival(SurvivalVariant(SurvivalSettings(by_age=False))),
    "survival-no-hours": _survival(SurvivalVariant(SurvivalSettings(by_hour=False))),
    "survival-no-prediction": _survival(SurvivalVariant(by_prediction=False)),
    "survival-departments": _survival(SurvivalVariant(by_department=True)),
    "survival-no-fading": _survival(SurvivalVariant(fades=False)),
    "survival-no-history": _survival(SurvivalVariant(history=False)),
    "survival-exponential": _survival(SurvivalVariant(SurvivalSettings(by_age=False, by_hour=False))),
    "oracle": lambda view, drawn, _: AvailabilityOracle(view, drawn.availability.ends, drawn.jobs.work_s),
}
"""The choices of ``--ranks``, and how each is made. ``first-come`` and all but ``eager`` bind a job when it starts."""


def published_cases(seeds: int) -> Iterator[RankingCase]:
    """All ranks on the four sets at the published load, GRV with both published weights, seed by seed."""
    for seed in range(seeds):
        for number in SETS:
            for rank in RANKS:
                if rank != "grv-raw":
                    yield RankingCase(number, rank, seed=seed)
            yield RankingCase(number, "grv", HALVES, seed=seed)


def curve_cases(seeds: int) -> Iterator[RankingCase]:
    """First come, GRV and survival at the other loads."""
    for seed in range(min(seeds, CURVE_SEEDS)):
        for number in SETS:
            for load in LOADS:
                if load != LOAD:
                    for rank in COMPARED:
                        yield RankingCase(number, rank, load=load, seed=seed)


def variant_cases(seeds: int) -> Iterator[tuple[str, RankingCase]]:
    """What was left open: both readings of set 4's row, owners without opening hours, and checkpoints."""
    for seed in range(seeds):
        for rank in COMPARED:
            yield "set 4, rows exchanged", RankingCase(4, rank, seed=seed, mean_work_h=EXCHANGED_WORK_H)
        for rank in ("first-come", "grv-raw", "survival"):
            yield "set 4, owners prefer fast machines, raw CA", RankingCase(4, rank, seed=seed, owners="prefer-fast")
        for number in (2, 3):
            for rank in (*COMPARED, "survival-exponential"):
                yield "owners without opening hours", RankingCase(number, rank, seed=seed, owners="uniform")
            for rank in COMPARED:
                yield "hourly checkpoints", RankingCase(number, rank, seed=seed, on_eviction="checkpoint")


def chosen_cases(
    sets: Sequence[int],
    ranks: Sequence[str],
    weights: Sequence[tuple[float, float, float]],
    loads: Sequence[float],
    seeds: int,
    owners: Owners,
    on_eviction: OnEviction,
    trace: str | None = None,
) -> Iterator[RankingCase]:
    """Every combination; ``weights`` only for ranks by GRV, scaled to a sum of 1."""
    scaled = [(w1 / (w1 + w2 + w3), w2 / (w1 + w2 + w3), w3 / (w1 + w2 + w3)) for w1, w2, w3 in weights]
    for seed in range(seeds):
        for number in sets:
            for load in loads:
                for rank in ranks:
                    for each in scaled if rank.startswith("grv") else [THIRDS]:
                        yield RankingCase(number, rank, each, load, seed, owners, on_eviction, trace=trace)


def run_case(case: RankingCase) -> dict[str, Any]:
    """The figures of one run."""
    if case.trace is None:
        drawn = draw(case.set, case.mean_work_h, case.load, case.seed, case.owners)
    else:
        drawn = draw_on_trace(case.trace, case.set, case.load, case.seed)
    grid = simulate(case, drawn)
    begin_s, is_done = float(drawn.jobs.submit_s[0]), np.isfinite(grid.end_s)
    last_s = float(grid.end_s.max()) if is_done.all() else drawn.availability.to_s
    return {
        "completed_share": float((is_done & (grid.evictions == 0)).mean()),
        "makespan_s": last_s - begin_s,
        "lost_cpu_h": float(grid.lost_s.sum()) / HOUR_S,
        "mean_wait_s": float(grid.waited_s.mean()),
        "evictions": int(grid.evictions.sum()),
        "unfinished": int((~is_done).sum()),
    }


def simulate(case: RankingCase, drawn: Drawn) -> CampusGrid:
    """The grid after the run."""
    view = new_view(drawn.machines.speed, drawn.machines.department)
    chooser = RANKS[case.rank](view, drawn, case)
    grid = CampusGrid(drawn.jobs, drawn.availability, chooser, view, case.on_eviction, eager=case.rank == "eager")
    grid.run()
    return grid


def run_cluster_case(number: int, seed: int) -> dict[str, Any]:
    """The figures of a set on the dedicated cluster, and its jobs' waiting and turnaround by queue and run time."""
    drawn = draw(number, None, LOAD, seed, "departments")
    jobs = with_background(np.random.default_rng((seed, 2)), drawn.jobs)
    run = run_cluster(jobs)
    mine = jobs.of_set
    return {
        "completed_share": float((run.stops[mine] == 0).mean()),
        "makespan_s": float(run.end_s[mine].max() - drawn.jobs.submit_s[0]),
        "lost_cpu_h": 0.0,
        "mean_wait_s": float(run.waited_s[mine].mean()),
        "by_run_time": {
            "queue": jobs.queue.tolist(),
            "run_s": jobs.run_s.tolist(),
            "waited_s": run.waited_s.tolist(),
            "turnaround_s": (run.end_s - jobs.submit_s).tolist(),
        },
    }


@lru_cache(maxsize=1)
def draw(number: int, mean_work_h: float | None, load: float, seed: int, owners: Owners) -> Drawn:
    """Machines, jobs and owners; owners are known from four weeks before the first job on."""
    rng = np.random.default_rng(seed)
    machines = campus_machines(rng, SPEED_SIGMA[owners])
    of = SETS[number]
    jobs = draw_jobs(rng, of.jobs, mean_work_h or of.mean_work_h, load, float(machines.speed.sum()))
    jobs = replace(jobs, submit_s=jobs.submit_s + HISTORY_S)
    begin_s, end_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    until_s = begin_s + 4.0 * (end_s - begin_s) * max(1.0, load) + MARGIN_S
    return Drawn(machines, jobs, draw_availability(rng, machines, OWNERS[owners], begin_s - HISTORY_S, until_s))


@lru_cache(maxsize=1)
def machines_of(trace: str) -> FailureTrace:
    """The machines of a file, plain or gzip.

    Raises:
        ValueError: it has no events, or fewer than two days of them.
    """
    file = Path(trace)
    with gzip.open(file, "rt", errors="replace") if file.suffix == ".gz" else file.open(errors="replace") as lines:
        found = read_failure_trace(lines)
    days = (found.availability.to_s - found.availability.from_s) / (24 * HOUR_S)
    if days < 2.0:
        raise ValueError(f"its events span {days:.2g} days; two at least are needed")
    return found


@lru_cache(maxsize=1)
def draw_on_trace(trace: str, number: int, load: float, seed: int) -> Drawn:
    """Jobs for the machines of a trace, from a moment that is drawn; known are up to four weeks before it.

    At most half of the time after these is for submissions, so a small or short trace has fewer jobs than the set.
    """
    rng = np.random.default_rng(seed)
    known = machines_of(trace).availability
    count, of = len(known.begins), SETS[number]
    span_s = known.to_s - known.from_s
    history_s = min(HISTORY_S, span_s / 2.0)
    for_jobs_s = (span_s - history_s) / 2.0
    sessions = zip(known.begins, known.ends, strict=True)
    available = sum(float((ends - begins).sum()) for begins, ends in sessions) / span_s  # machines, on average
    jobs = max(1, min(of.jobs, int(for_jobs_s * load * available / (of.mean_work_h * HOUR_S))))
    drawn = draw_jobs(rng, jobs, of.mean_work_h, load, available)
    submit_s = drawn.submit_s - drawn.submit_s[0]
    begin_s = known.from_s + history_s + rng.random() * max(0.0, for_jobs_s - float(submit_s[-1]))
    from_s = begin_s - history_s
    keep = [ends > from_s for ends in known.ends]
    availability = Availability(
        [np.maximum(begins[own], from_s) for begins, own in zip(known.begins, keep, strict=True)],
        [ends[own] for ends, own in zip(known.ends, keep, strict=True)],
        from_s,
        known.to_s,
    )
    alike, none = np.ones(count), np.zeros(count, dtype=np.int64)
    machines = CampusMachines(alike, none, alike > 0.0, fact_table([]))
    return Drawn(machines, replace(drawn, submit_s=submit_s + begin_s), availability)


def observed(availability: Availability, until_s: float) -> Exposure:
    """What was seen of each machine's sessions before ``until_s``; those that go on have not ended."""
    count = [int(np.searchsorted(begins, until_s)) for begins in availability.begins]
    machine = np.repeat(np.arange(len(count)), count)
    begins = np.concatenate([times[:n] for times, n in zip(availability.begins, count, strict=True)])
    ends = np.concatenate([times[:n] for times, n in zip(availability.ends, count, strict=True)])
    from_s = np.maximum(begins, availability.from_s)
    return Exposure(machine, begins, from_s, np.minimum(ends, until_s), ends <= until_s)
