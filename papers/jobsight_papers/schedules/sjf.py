"""Shortest job first, without backfilling: the shortest waiting job starts, or all wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import ClassVar

from jobsight_scheduler.policies.base import JobRequests, Policy
from jobsight_scheduler.prediction import Predictor, expected_run_s


class Sjf(Policy):
    """Order: expected run time (the request, or what ``run_times`` forecasts at the submission), then job number."""

    name: ClassVar[str] = "sjf"

    def __init__(self, requests: JobRequests, run_times: Predictor | None = None) -> None:
        super().__init__(requests)
        self.run_times = run_times
        self.queue: list[tuple[float, int]] = []
        self.started: dict[int, float] = {}  # needed to learn run times only

    def submitted(self, now: float, job: int) -> Sequence[int]:
        expected = self.estimate_s[job]
        if self.run_times is not None:
            expected = expected_run_s(self.run_times.forecast(job), expected)
        heappush(self.queue, (expected, job))
        self.machine.expire(now)
        return self._pass(now)

    def ended(self, now: float, job: int) -> Sequence[int]:
        if self.run_times is not None:
            self.run_times.learn(job, now - self.started.pop(job))
        self.machine.end(now, job)
        return self._pass(now)

    def _pass(self, now: float) -> list[int]:
        queue, machine = self.queue, self.machine
        begun: list[int] = []
        while queue and (where := machine.find_first(queue[0][1])) is not None:
            begun.append(heappop(queue)[1])
            machine.start(now, begun[-1], where)
        if self.run_times is not None:
            self.started |= dict.fromkeys(begun, now)
        return begun
