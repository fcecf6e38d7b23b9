"""A policy that tracks running jobs, and when each will be over by its estimate."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

from .base import NEVER, JobRequests, Policy


class ExpectedEndsPolicy(Policy):
    """``free`` processors now; ``expected`` ends of the running jobs, sorted. Expired jobs count as ended."""

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.free = self.capacity
        self.expected: list[tuple[float, int]] = []  # (end, job)
        self.expires: dict[int, float] = {}  # the same by job

    def _start(self, now: float, job: int) -> None:
        self.free -= self.processors[job]
        end = self.expires[job] = now + self.estimate_s[job]
        insort(self.expected, (end, job))

    def _end(self, now: float, job: int) -> None:
        end = self.expires.pop(job, None)
        if end is not None:  # otherwise it had expired
            del self.expected[bisect_left(self.expected, (end, job))]
            self.free += self.processors[job]
        if self.expected and self.expected[0][0] <= now:
            self._expire(now)

    def _expire(self, now: float) -> None:
        """Counts jobs whose estimate runs out now as ended."""
        expected = self.expected
        count = 0
        for end, job in expected:
            if end > now:
                break
            self.free += self.processors[job]
            del self.expires[job]
            count += 1
        del expected[:count]

    def _reservation(self, head: int) -> tuple[float, int]:
        """When a job that does not fit now can start by the estimates, and the processors left over then."""
        processors = self.processors
        need, free, shadow = processors[head], self.free, NEVER
        for end, job in self.expected:
            if end > shadow:
                break
            free += processors[job]
            if free >= need:
                shadow = end
        return shadow, free - need

    def state(self) -> dict[str, Any]:
        return {"free": self.free, "expected": self.expected}

    def restore(self, state: dict[str, Any]) -> None:
        self.free = state["free"]
        self.expected = [(end, job) for end, job in state["expected"]]
        self.expires = {job: end for end, job in self.expected}
