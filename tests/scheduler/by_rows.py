"""Workloads by rows, their schedules, and a machine by the second, on which oracles paint jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from jobsight_predictor.question import Question
from jobsight_scheduler.simulator.event_loop import MakePolicy, Simulation
from jobsight_scheduler.workload.canonical import Workload

Row = tuple[float, float, float, int]
"""Submission, run time, request, processors."""


def workload_of(rows: Sequence[Row]) -> Workload:
    submit, run, estimate, processors = (np.array(column) for column in zip(*rows, strict=True))
    return Workload(submit * 1.0, run * 1.0, estimate * 1.0, processors, np.arange(len(rows)), Counter())


def starts_of(make: MakePolicy, capacity: int, rows: Sequence[Row], users: Sequence[str] | None = None) -> list[float]:
    """Start of each job; ``users`` of the jobs, if the policy needs them."""
    questions = [Question(user=user, requested_time_s=row[2]) for user, row in zip(users or (), rows, strict=False)]
    simulation = Simulation(workload_of(rows), capacity, make, questions)
    assert simulation.advance(100_000)
    return simulation.start_s.tolist()


class Seconds:
    """Free processors of every second, by what was promised."""

    def __init__(self, capacity: int, rows: Sequence[tuple[int, int, int, int]]) -> None:
        self.horizon = max(row[0] for row in rows) + 2 * sum(row[2] for row in rows) + 5
        self.free = [capacity] * self.horizon

    def paint(self, start: int, end: int, count: int) -> None:
        for second in range(start, end):
            self.free[second] -= count

    def fits(self, start: int, length: int, count: int) -> bool:
        return all(self.free[second] >= count for second in range(start, start + length))

    def first(self, now: int, length: int, count: int) -> int:
        start = now
        while not self.fits(start, length, count):
            start += 1
        return start
