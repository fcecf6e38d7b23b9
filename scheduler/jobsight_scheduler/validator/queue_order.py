"""Rules about the order of the queue."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from jobsight_scheduler.table import JobTable

from .basics import BrokenRule, free_steps


def became_head(table: JobTable) -> NDArray[np.float64]:
    """When each job reached the head of the queue: submitted, and all earlier jobs started; shape (jobs,)."""
    before = np.concatenate([[-np.inf], np.maximum.accumulate(table.start_s)[:-1]])
    heads: NDArray[np.float64] = np.maximum(table.submit_s, before)
    return heads


def check_order(table: JobTable, capacity: int) -> list[BrokenRule]:
    """Jobs start in the order of the queue."""
    early = np.flatnonzero(table.start_s < became_head(table))
    return [
        BrokenRule("order", int(table.job[i]), f"starts at {table.start_s[i]:g}, before a job that came earlier")
        for i in early.tolist()
        if table.start_s[i] >= table.submit_s[i]
    ]


def check_head_waits_for_room(table: JobTable, capacity: int) -> list[BrokenRule]:
    """The head of the queue starts as soon as it fits."""
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
    """No job starts while one with a shorter request waits. Jobs submitted at the same instant may be later."""
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
    """Whenever jobs wait, at least one of them needs more processors than are free: the first, in whatever order.

    Holds for every policy that starts the head of its queue as soon as it fits. Each instant is reported once, with the
    largest of the jobs that wait.
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
