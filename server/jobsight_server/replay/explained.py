"""What explains the waits on record: how a machine's queues are ordered, limits of users, and processors out of use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product, starmap
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.policies.base import JobRequests, Policy
from jobsight_scheduler.policies.bounded import Bounded
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.fcfs import Fcfs
from jobsight_scheduler.workload.canonical import Workload
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.replay.kinds import WAITED_S
from jobsight_server.replay.record import Floats

EASY, FCFS, RECORDED = "EASY", "first come, first served", "EASY in the order of the recorded starts"
BY_QUEUE = "first come, first served by queue"
ORDERS = EASY, FCFS, BY_QUEUE, RECORDED


@dataclass(frozen=True, slots=True)
class Way:
    """How a machine may have been scheduled: by EASY, in order of submission, or so in each queue, or by EASY in the
    order of the recorded starts. With ``limits`` each user holds no more processors than at most on record; with
    ``down`` processors are out of use, those that were idle all day while jobs waited.
    """

    order: str = EASY
    limits: bool = False
    down: bool = False

    @property
    def assumptions(self) -> int:
        """Return how many facts are taken from the record."""
        return (self.order == RECORDED) + self.limits + self.down

    def __str__(self) -> str:
        more = ["no user holds more processors than ever"] * self.limits
        more += ["processors idle all day while jobs waited were out of use"] * self.down
        return "; ".join((self.order, *more))


WAYS = sorted(starmap(Way, product(ORDERS, (False, True), (False, True))), key=attrgetter("assumptions"))
"""Those that assume least first."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The record of one machine: ``start_s`` of its jobs, shape (jobs,), their users and queues as numbers."""

    work: Workload
    start_s: Floats
    user: NDArray[np.int64]
    queue: NDArray[np.int64]
    capacity: int

    def policy(self, way: Way, make: Callable[..., Policy], requests: JobRequests) -> Policy:
        """Return the policy from ``make(requests, rank=)`` within what ``way`` assumes."""
        by_start = way.order == RECORDED
        if not (by_start or way.limits or way.down):
            return make(requests)
        order = np.lexsort((self.work.submit_s, self.start_s)) if by_start else np.arange(len(self.work))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return Bounded(make(requests, rank=rank.tolist()), out_of_use(self) if way.down else [])

    def limits(self, way: Way) -> tuple[list[int], list[float]] | None:
        """Return the user of each job, and the most processors of each at once; None if ``way`` has no limits."""
        return (self.user.tolist(), largest_uses(self).tolist()) if way.limits else None

    def as_requested(self, way: Way) -> Callable[..., Policy]:
        """Return what makes the policy that ``way`` assumes."""
        if way.order not in (FCFS, BY_QUEUE):
            return Easy
        queue = self.queue.tolist() if way.order == BY_QUEUE else ()
        return lambda requests, rank=(): Fcfs(requests, queue, rank)


def largest_uses(record: Schedule) -> NDArray[np.int64]:
    """Return the most processors that each user held at once, shape (users,)."""
    _, change, who = _events(record, record.user)
    most = np.zeros(int(record.user.max()) + 1, dtype=np.int64)
    for user in range(len(most)):
        most[user] = np.cumsum(change[who == user]).max()
    return most


def out_of_use(record: Schedule) -> list[tuple[float, int]]:
    """Return times and the processors out of use from then on: idle all day while a job waited all day, else none."""
    times, change, _ = _events(record, record.user)
    used = np.concatenate([[0], np.cumsum(change)])
    submit, start = record.work.submit_s, record.start_s
    days = np.arange(np.floor(submit.min() / DAY_S), np.ceil(times[-1] / DAY_S) + 1.0) * DAY_S
    waited = np.zeros(len(days), dtype=np.int64)
    waits = start - submit > WAITED_S
    np.add.at(waited, np.searchsorted(days, submit[waits], side="right") - 1, 1)
    np.add.at(waited, np.searchsorted(days, start[waits], side="right"), -1)
    has_queue = np.cumsum(waited) > 0
    edges = np.searchsorted(times, days)
    found, last = [], 0
    for i, day in enumerate(days[:-1].tolist()):
        down = int(record.capacity - used[edges[i] : edges[i + 1] + 1].max()) if has_queue[i] else 0
        if down != last:
            found.append((day, max(0, down)))
            last = down
    return [*found, (float(days[-1]), 0)] if last else found


def _events(record: Schedule, who: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return the times at which jobs start and end, the change of processors in use, and whose it is."""
    work, start = record.work, record.start_s
    times = np.concatenate([start + work.run_s, start])
    change = np.concatenate([-work.processors, work.processors])
    order = np.lexsort((change, times))
    return times[order], change[order], np.concatenate([who, who])[order]
