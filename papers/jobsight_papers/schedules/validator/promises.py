"""The promises of policies: the order of the queue, EASY's reservation, conservative backfilling's starts."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.schedules.validator.basics import NEAR_S, BrokenRule, free_steps
from jobsight_scheduler.table import JobTable


def became_head(table: JobTable) -> NDArray[np.float64]:
    """Return when each job reached the head of the queue: submitted, and all earlier jobs started; shape (jobs,)."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(table.start_s)[:-1]])
    heads: NDArray[np.float64] = np.maximum(table.submit_s, before)
    return heads


def check_order(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that jobs start in the order of the queue."""
    early = np.flatnonzero(table.start_s < became_head(table))
    return [
        BrokenRule("order", int(table.job[i]), f"starts at {table.start_s[i]:g}, before an earlier job")
        for i in early.tolist()
        if table.start_s[i] >= table.submit_s[i]
    ]


def check_head_waits_for_room(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that the head of the queue starts as soon as it fits."""
    instants, free = free_steps(table, capacity)
    head = became_head(table)
    found = []
    for i in np.flatnonzero(table.start_s > head).tolist():
        # Before the first instant everything is free; no job has a reason to wait there.
        first, last = np.searchsorted(instants, [head[i], table.start_s[i]])
        if first < len(instants) and instants[first] > head[i]:
            first -= 1
        room = np.flatnonzero(free[max(first, 0) : last] >= table.processors[i])
        if len(room) or first < 0:
            when = instants[max(first, 0) + room[0]] if len(room) else head[i]
            message = f"is first in the queue and fits at {max(when, head[i]):g}, but starts at {table.start_s[i]:g}"
            found.append(BrokenRule("head", int(table.job[i]), message))
    return found


def check_shortest_first(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that no job starts while one with a shorter request waits. Jobs submitted at that instant may be later."""
    estimate, starts = table.estimate_s.tolist(), table.start_s.tolist()
    submits = table.submit_s.tolist()
    waiting: list[tuple[float, int]] = []
    coming = 0
    found = []
    for i in np.argsort(table.start_s, kind="stable").tolist():
        now = starts[i]
        while coming < len(table) and submits[coming] < now:
            heappush(waiting, (estimate[coming], coming))
            coming += 1
        while waiting and starts[waiting[0][1]] <= now:
            heappop(waiting)
        if waiting and waiting[0] < (estimate[i], i):
            shorter, job = waiting[0]
            message = f"starts at {now:g} with {estimate[i]:g} s, while job {table.job[job]} waits with {shorter:g} s"
            found.append(BrokenRule("shortest first", int(table.job[i]), message))
    return found


def check_room_is_used(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check that whenever jobs wait, at least one needs more processors than are free: the first, in any order.

    Holds for every policy that starts the head of its queue as soon as it fits. Each instant is reported once, with the
    largest waiting job.
    """
    instants, free = free_steps(table, capacity)
    need, submits, starts = table.processors.tolist(), table.submit_s.tolist(), table.start_s.tolist()
    arriving = np.argsort(table.submit_s, kind="stable").tolist()
    largest: list[tuple[int, int]] = []  # heap of (-processors, job) of those that have been submitted
    coming = 0
    found = []
    for now in np.unique(np.concatenate([instants, table.submit_s])).tolist():
        while coming < len(arriving) and submits[arriving[coming]] <= now:
            heappush(largest, (-need[arriving[coming]], arriving[coming]))
            coming += 1
        while largest and starts[largest[0][1]] <= now:
            heappop(largest)
        if largest:
            place = int(np.searchsorted(instants, now, "right")) - 1
            room = int(free[place]) if place >= 0 else capacity
            if -largest[0][0] <= room:
                job = largest[0][1]
                message = f"needs {need[job]} processors and waits at {now:g}, when {room} are free; all that wait fit"
                found.append(BrokenRule("room", int(table.job[job]), message))
    return found


def check_reservation(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Check the reservation of each head, made when it reaches the head, from the jobs that run then, including those
    that start at that instant.
    """
    head = became_head(table)
    starting = np.argsort(table.start_s, kind="stable").tolist()
    starts, ends = table.start_s.tolist(), table.end_s.tolist()
    expected = (table.start_s + table.estimate_s).tolist()
    processors = table.processors.tolist()
    running: list[int] = []
    k = 0
    found = []
    heads = np.flatnonzero(table.start_s > head)
    for i in heads[np.argsort(head[heads], kind="stable")].tolist():
        now = head[i]
        while k < len(starting) and starts[starting[k]] <= now:
            running.append(starting[k])
            k += 1
        running = [job for job in running if ends[job] > now]
        free = capacity - sum(processors[job] for job in running)
        reserved = now
        for job in sorted(running, key=expected.__getitem__):
            if free >= processors[i]:
                break
            free += processors[job]
            reserved = max(now, expected[job])
        if starts[i] > reserved + NEAR_S:
            message = f"came first in the queue at {now:g} and was promised {reserved:g}, but starts at {starts[i]:g}"
            found.append(BrokenRule("reservation", int(table.job[i]), message))
    return found


def check_promises(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Promise each job a start in the plainest way: at its submission, from running jobs (by estimate) and earlier
    promises; at each end, for every waiting job in the order of the queue. No job may start later than its promise.
    Takes minutes if hundreds of jobs wait.
    """
    submits, starts, ends = table.submit_s.tolist(), table.start_s.tolist(), table.end_s.tolist()
    starting = sorted(range(len(table)), key=starts.__getitem__)
    ending: dict[float, list[int]] = {}
    for job in starting:
        ending.setdefault(ends[job], []).append(job)
    begun = came = 0
    plan = _Plan(table, capacity)
    waiting: dict[int, float] = {}
    found = []
    for now in sorted({*submits, *ends}):
        while begun < len(starting) and starts[starting[begun]] < now:
            job = starting[begun]
            begun += 1
            if waiting.pop(job, starts[job]) < starts[job]:
                message = f"was promised {plan.start(job):g}, but starts at {starts[job]:g}"
                found.append(BrokenRule("promise", int(table.job[job]), message))
            plan.put(job, starts[job])
        while came < len(table) and submits[came] <= now:
            waiting[came] = plan.promise(came, now)
            came += 1
        for job in sorted(ending.get(now, ()), key=lambda job: (starts[job], plan.numbers.get(job, 0))):
            plan.end(job)
            for queued, promise in list(waiting.items()):
                if promise > now:
                    waiting[queued] = plan.promise(queued, now)
    return found


class _Plan:
    """Start and expected end of each job that runs or is promised a start; ``numbers`` is the order of the promises;
    jobs of one instant start in it.
    """

    def __init__(self, table: JobTable, capacity: int) -> None:
        self._estimate, self._need = table.estimate_s.tolist(), table.processors.tolist()
        self._capacity = capacity
        self._held: dict[int, tuple[float, float]] = {}
        self.numbers: dict[int, int] = {}
        self._count = 0

    def start(self, job: int) -> float:
        """Return the promised start of ``job``."""
        return self._held[job][0]

    def put(self, job: int, start: float) -> None:
        """Record the start of ``job``."""
        self._held[job] = (start, start + self._estimate[job])

    def end(self, job: int) -> None:
        """Remove ``job``, which has ended."""
        self._held.pop(job, None)
        self.numbers.pop(job, None)

    def promise(self, job: int, now: float) -> float:
        """Promise the earliest start from ``now`` on that leaves all others in place."""
        before = self._held.pop(job, None)
        held = {other: span for other, span in self._held.items() if span[1] > now}
        spans = np.array(list(held.values())).reshape(-1, 2)
        need = np.array([self._need[other] for other in held], dtype=np.int64)
        instants = np.unique(np.concatenate([[now], spans[:, 0], spans[:, 1]]))
        instants = instants[instants >= now]
        busy = ((spans[:, :1] <= instants) & (spans[:, 1:] > instants)).T @ need
        full = busy + self._need[job] > self._capacity
        start = now
        for at, until in zip(instants[full].tolist(), np.append(instants[1:], np.inf)[full].tolist(), strict=True):
            if at >= start + self._estimate[job]:
                break
            start = until
        self.put(job, start)
        if before is None or before[0] != start:
            self.numbers[job] = self._count
            self._count += 1
        return start
