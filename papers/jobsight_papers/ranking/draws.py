"""Random draws of the ranking experiment: machines, jobs and owners, of the emulated campus or of a trace."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np

from jobsight_papers.ranking.choosers import Observed
from jobsight_papers.ranking.failure_trace import FailureTrace, read_failure_trace
from jobsight_papers.ranking.job_sets import SETS, CampusJobs, draw_jobs
from jobsight_papers.ranking.owners import (
    HOUR_S,
    Availability,
    CampusMachines,
    OwnerSettings,
    campus_machines,
    draw_availability,
)

HISTORY_S = 28 * 24 * HOUR_S
MARGIN_S = 20 * 24 * HOUR_S

Owners = Literal["departments", "prefer-fast", "fickle"]
OWNERS: dict[Owners, OwnerSettings] = {
    "departments": OwnerSettings(),
    "prefer-fast": OwnerSettings(prefer_fast=3.0),
    "fickle": OwnerSettings(idle_shape=0.6),
}
SPEED_SIGMA: dict[Owners, float] = {"departments": 0.0, "prefer-fast": 0.4, "fickle": 0.0}


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws of one seed."""

    machines: CampusMachines
    jobs: CampusJobs
    availability: Availability


@lru_cache(maxsize=1)
def draw(number: int, mean_work_h: float | None, load: float, seed: int, owners: Owners) -> Drawn:
    """Draw machines, jobs and owners; the history of owners begins four weeks before the first job."""
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
    """Read the machines of a file, plain or gzip.

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
    """Draw jobs for the machines of a trace, from a random time on; up to four weeks before it are history.

    At most half of the rest is for submissions, so a small or short trace has fewer jobs than the set.
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
    machines = CampusMachines(alike, none, alike > 0.0)
    return Drawn(machines, replace(drawn, submit_s=submit_s + begin_s), availability)


def observed(availability: Availability, until_s: float) -> Observed:
    """Return the sessions of each machine as seen before ``until_s``; open ones have not ended."""
    count = [int(np.searchsorted(begins, until_s)) for begins in availability.begins]
    machine = np.repeat(np.arange(len(count)), count)
    begins = np.concatenate([times[:n] for times, n in zip(availability.begins, count, strict=True)])
    ends = np.concatenate([times[:n] for times, n in zip(availability.ends, count, strict=True)])
    return Observed(machine, np.maximum(begins, availability.from_s), np.minimum(ends, until_s), ends <= until_s)
