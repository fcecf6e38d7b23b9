"""Replays one machine's jobs with the run times and the memory that a rule gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.question import Question
from jobsight_scheduler.policies.base import Policy
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.easy_plus import EasyPlus
from jobsight_scheduler.prediction import LastTwo, Stated
from jobsight_scheduler.simulator.shared_nodes import SharedSimulation
from jobsight_scheduler.table import table_of
from jobsight_scheduler.workload.canonical import Workload
from jobsight_server.replay.explained import Schedule, Way
from jobsight_server.replay.machines import Machine, MachineJob

Floats = NDArray[np.float64]

EVENTS_AT_ONCE = 2_000
"""Events of a simulation between two updates of its progress."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of counted jobs, in the same order for every rule; arrays of shape (jobs,)."""

    wait_s: Floats
    slowdown: Floats
    killed: NDArray[np.int64]
    busy_s: float  # processor seconds between the first and the last submission


class Replay:
    """The jobs of one machine in the form of the simulator, with ``assumed`` values counted by reason. Those that
    ended and were submitted from ``since`` on count."""

    def __init__(self, machine: Machine, base: float, since: float, assumed: Counter[str]) -> None:
        self.nodes, self.name, self._forecast = machine.nodes, machine.name, machine.forecast
        self.capacity = int(machine.nodes.processors.sum())
        self.jobs = [job for job in machine.jobs if job.processors <= self.capacity]
        assumed["have more processors than their nodes: left out"] += len(machine.jobs) - len(self.jobs)
        longest = max((max(job.limit_s or 0.0, job.end - job.start) for job in self.jobs), default=0.0)
        assumed["request no run time: EASY takes the machine's longest"] += sum(not job.limit_s for job in self.jobs)
        assumed["request no memory: none is reserved"] += sum(not job.requested_bytes for job in self.jobs)
        run = np.array([job.end - job.start for job in self.jobs])
        limits = np.array([job.limit_s or longest for job in self.jobs])
        submitted = np.array([job.submitted for job in self.jobs])
        self.counts = np.array([job.counts for job in self.jobs], dtype=bool) & (submitted >= since)
        self.start_s = np.array([job.start for job in self.jobs]) - base
        self.work = Workload(
            submit_s=submitted - base,
            run_s=run,
            estimate_s=np.maximum(limits, run),  # a job that ran longer was not cut off there
            processors=np.array([job.processors for job in self.jobs], dtype=np.int64),
            row=np.arange(len(self.jobs)),
            counts=Counter(jobs=len(self.jobs)),
        )
        user, queue = (
            np.unique([of(job) for job in self.jobs], return_inverse=True)[1]
            for of in (attrgetter("user"), attrgetter("queue"))
        )
        self.record = Schedule(self.work, self.start_s, user, queue, self.capacity)
        self.way = Way()
        # A run that did not end is not the last one.
        self.questions = [Question(user=job.user if job.counts else None) for job in self.jobs]
        self._fitting: dict[tuple[int, int, float], float] = {}
        asked = [np.floor(job.requested_bytes or 0.0) for job in self.jobs]
        self._request = [self._fitted(job, amount) for job, amount in zip(self.jobs, asked, strict=True)]
        cut = sum(given < amount for given, amount in zip(self._request, asked, strict=True))
        assumed["request more memory than their nodes have: cut to that"] += cut
        used = [np.nan if job.used_bytes is None else job.used_bytes for job in self.jobs]
        # A job that used more than its request was not killed.
        self.used_bytes = np.floor(np.minimum(used, self._request))

    def forecast(self) -> None:
        """Add to the jobs what was forecast and recommended at their submission."""
        self.jobs = self._forecast(self.jobs)

    def run(self, run_times: str, memory: str, progress: Callable[[int], None]) -> tuple[Floats, Sequence[int]]:
        """Return the start of each job's last run, and how often it was killed before, within what ``way`` assumes.

        ``progress`` gets the number of jobs that have ended.
        """
        policies: dict[str, Callable[..., Policy]] = {
            "as explained": self.record.as_requested(self.way),
            "request": Easy,
            "limits": Easy,
            "last two": lambda requests, rank=(): EasyPlus(requests, LastTwo(requests.questions), rank),
            "Jobsight": lambda requests, rank=(): EasyPlus(requests, Stated(self._forecasts()), rank),
        }
        amounts: dict[str, Callable[[], Sequence[Sequence[float]]]] = {
            "request": lambda: [()] * len(self.jobs),
            "last two": lambda: last_two(self.jobs),
            "Jobsight": lambda: [job.recommended for job in self.jobs],
        }
        attempts = [
            self._attempts(job, request, given)
            for job, request, given in zip(self.jobs, self._request, amounts[memory](), strict=True)
        ]
        simulation = SharedSimulation(
            self.work,
            self.nodes,
            partial(self.record.policy, self.way, policies[run_times]),
            self.questions,
            attempts,
            self.used_bytes,
            [job.kind for job in self.jobs],
            self._limits() if run_times == "limits" else (),
            self.record.limits(self.way),
        )
        while not simulation.advance(EVENTS_AT_ONCE):
            progress(simulation.ended)
        return simulation.start_s, simulation.failures

    def waits(self, start_s: Floats, killed: Sequence[int], first: float, last: float) -> Waits:
        """Return the figures of the jobs that count, submitted from ``first`` to ``last``."""
        table, counted = table_of(self.work, start_s), self.counts
        within = np.minimum(table.end_s, last) - np.maximum(start_s, first)
        busy = float(table.processors @ np.maximum(within, 0.0))
        return Waits(table.wait_s[counted], table.bounded_slowdown[counted], np.asarray(killed)[counted], busy)

    def memory_held(self, first: float, last: float) -> tuple[float, float]:
        """Return the byte seconds that jobs on record reserved, and used, from ``first`` to ``last``."""
        within = np.minimum(self.start_s + self.work.run_s, last) - np.maximum(self.start_s, first)
        held = self.work.processors * np.maximum(within, 0.0)
        return float(held @ np.array(self._request)), float(
            held @ np.array([job.used_bytes or 0.0 for job in self.jobs])
        )

    def _forecasts(self) -> list[float]:
        known = zip(self.jobs, self.work.estimate_s.tolist(), strict=True)
        return [limit if job.forecast_s is None else job.forecast_s for job, limit in known]

    def _limits(self) -> list[list[float]]:
        """Return the bound of the forecast, if it is below the request, then what EASY takes as the limit.

        A job that outran its request has a longer limit: it was not killed there.
        """
        found = []
        for job, limit in zip(self.jobs, self.work.estimate_s.tolist(), strict=True):
            is_lower = job.bound_s and job.bound_s < (job.limit_s or limit)
            found.append([job.bound_s or limit, limit] if is_lower else [limit])
        return found

    def _attempts(self, job: MachineJob, request: float, amounts: Sequence[float]) -> list[float]:
        """Return the amounts below the request in turn, then the request; more than that if so recommended."""
        if not request or not amounts:
            return [request]
        below = [self._fitted(job, amount) for amount in amounts if amount < request]
        return [*below, request] if below else [self._fitted(job, amounts[0])]

    def _fitted(self, job: MachineJob, amount: float) -> float:
        """Return the amount in whole bytes, or what its nodes have if that is less."""
        key = job.processors, job.kind, amount
        if key not in self._fitting:
            while amount and self.nodes.room(amount, job.kind).sum() < job.processors:
                amount *= 0.98
            self._fitting[key] = float(np.floor(amount))
        return self._fitting[key]


def last_two(jobs: Sequence[MachineJob]) -> list[tuple[float, ...]]:
    """Return the larger memory of the user's last two jobs that had ended at each submission; empty before."""
    ends = sorted((job for job in jobs if job.used_bytes), key=lambda job: job.end)
    last: dict[str, tuple[float, ...]] = {}
    found: list[tuple[float, ...]] = []
    ended = 0
    for job in jobs:
        while ended < len(ends) and ends[ended].end <= job.submitted:
            of_user = ends[ended].user
            last[of_user] = (*last.get(of_user, ())[-1:], ends[ended].used_bytes or 0.0)
            ended += 1
        known = last.get(job.user, ())
        found.append((max(known),) if len(known) == 2 else ())
    return found
