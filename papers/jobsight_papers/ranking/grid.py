"""The campus grid: jobs wait in one queue, start on an available machine, and lose it when its owner comes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

import numpy as np

from jobsight_papers.ranking.choosers import Chooser, GridView
from jobsight_papers.ranking.job_sets import CampusJobs
from jobsight_papers.ranking.owners import Availability

OnEviction = Literal["restart", "checkpoint"]
CHECKPOINT_S = 3600.0

ENDED, LEFT, RETURNED = 0, 1, 2
"""Events of a machine, in the order for one instant: its job ends, its owner comes, its owner leaves."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run of a job on a machine from ``start_s`` to ``end_s``, completed or evicted."""

    job: int
    machine: int
    start_s: float
    end_s: float
    completed: bool


class CampusGrid:
    """Runs ``jobs`` until all have completed, or ``availability`` ends.

    An evicted job returns to the head of the queue. It starts over, or from its last hourly checkpoint.
    """

    def __init__(
        self,
        jobs: CampusJobs,
        availability: Availability,
        chooser: Chooser,
        view: GridView,
        on_eviction: OnEviction = "restart",
    ) -> None:
        count, machines = len(jobs), len(view.speed)
        self.jobs, self.chooser, self.view = jobs, chooser, view
        self._keeps = on_eviction == "checkpoint"
        self._left_s: list[float] = jobs.work_s.tolist()
        self._speed: list[float] = view.speed.tolist()
        self._begins = [times.tolist() for times in availability.begins]
        self._ends = [times.tolist() for times in availability.ends]
        self._session = [0] * machines
        self._job = [-1] * machines
        self._started = [0.0] * machines
        self._to_s = availability.to_s
        self._queued_s = jobs.submit_s.tolist()
        self.queue: deque[int] = deque()
        self.attempts: list[Attempt] = []
        self.end_s = np.full(count, np.inf)
        self.evictions = np.zeros(count, dtype=np.int64)
        self.waited_s = np.zeros(count)
        self.lost_s = np.zeros(count)

    def run(self) -> None:
        """Handle all events; unfinished jobs keep an infinite ``end_s``."""
        submit: list[float] = self.jobs.submit_s.tolist()
        if not submit:
            return
        events: list[tuple[float, int, int]] = []
        for machine, (begins, ends) in enumerate(zip(self._begins, self._ends, strict=True)):
            while self._session[machine] < len(ends) and ends[self._session[machine]] <= submit[0]:
                self._session[machine] += 1
            if self._session[machine] < len(begins):
                events.append((begins[self._session[machine]], RETURNED, machine))
        heapify(events)
        self._events = events
        open_jobs, following = len(submit), 0
        while open_jobs:
            if following < len(submit) and (not events or submit[following] < events[0][0]):
                self.queue.append(following)
                self._match(submit[following])
                following += 1
                continue
            if not events or events[0][0] >= self._to_s:
                break
            now, kind, machine = heappop(events)
            if kind == RETURNED:
                self._returned(now, machine)
            elif kind == LEFT:
                self._left(now, machine)
            else:
                open_jobs -= 1
                self._ended(now, machine)

    def _returned(self, now: float, machine: int) -> None:
        begin = self._begins[machine][self._session[machine]]
        self.view.since_s[machine] = begin
        self.view.free[machine] = True
        heappush(self._events, (self._ends[machine][self._session[machine]], LEFT, machine))
        self.chooser.returned(machine, begin)
        self._match(now)

    def _left(self, now: float, machine: int) -> None:
        session, job = self._session[machine], self._job[machine]
        self.view.free[machine] = False
        self.view.since_s[machine] = np.nan
        self._session[machine] = session + 1
        self.chooser.left(machine, self._begins[machine][session], now)
        if session + 1 < len(self._begins[machine]):
            heappush(self._events, (self._begins[machine][session + 1], RETURNED, machine))
        if job < 0:
            return
        self._job[machine] = -1
        start_s = self._started[machine]
        self.attempts.append(Attempt(job, machine, start_s, now, completed=False))
        kept_s = (now - start_s) // CHECKPOINT_S * CHECKPOINT_S if self._keeps else 0.0
        self._left_s[job] -= kept_s * self._speed[machine]
        self.lost_s[job] += now - start_s - kept_s
        self.evictions[job] += 1
        self._queued_s[job] = now
        self.chooser.evicted(machine)
        self.queue.appendleft(job)
        self._match(now)

    def _ended(self, now: float, machine: int) -> None:
        job = self._job[machine]
        self._job[machine] = -1
        self.attempts.append(Attempt(job, machine, self._started[machine], now, completed=True))
        self.end_s[job] = now
        self.view.free[machine] = True
        self.chooser.finished(machine)
        self._match(now)

    def _match(self, now: float) -> None:
        """Start all jobs that can start."""
        free = self.view.free
        while self.queue and len(candidates := np.flatnonzero(free)):
            job = self.queue.popleft()
            self._start(now, job, self.chooser.choose(job, now, candidates))

    def _start(self, now: float, job: int, machine: int) -> None:
        self.view.free[machine] = False
        self._job[machine] = job
        self._started[machine] = now
        self.waited_s[job] += now - self._queued_s[job]
        end_s = now + self._left_s[job] / self._speed[machine]
        if end_s <= self._ends[machine][self._session[machine]]:
            heappush(self._events, (end_s, ENDED, machine))
