"""A policy that tracks which jobs run, on which nodes, and when each will be over by its estimate."""

from __future__ import annotations

from bisect import bisect_left, insort

from jobsight_scheduler.memory.nodes import Taken

from .base import MemoryPolicy, PolicyInput


class MemoryExpectedEndsPolicy(MemoryPolicy):
    """``expected`` ends of the running jobs, sorted. The nodes of jobs whose estimate has run out count as free."""

    def __init__(self, given: PolicyInput) -> None:
        super().__init__(given)
        self.expected: list[tuple[float, int, Taken]] = []
        self._expires: dict[int, float] = {}

    def _start(self, now: float, job: int, taken: Taken) -> None:
        self.nodes.take(taken)
        end = self._expires[job] = now + self.estimate_s[job]
        insort(self.expected, (end, job, taken))

    def _end(self, now: float, job: int, taken: Taken) -> None:
        end = self._expires.pop(job, None)
        if end is not None:  # otherwise it had expired
            self.nodes.give(taken)
            del self.expected[bisect_left(self.expected, (end, job, taken))]
        self._expire(now)

    def _expire(self, now: float) -> None:
        while self.expected and self.expected[0][0] <= now:
            _, job, taken = self.expected.pop(0)
            self.nodes.give(taken)
            del self._expires[job]
