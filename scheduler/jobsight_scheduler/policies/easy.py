"""EASY backfilling (Lifka 1995): the head of the queue has a reservation, others may jump ahead if they keep it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any, ClassVar

from .base import NEVER, Policy, Requests


class Easy(Policy):
    """Head of the queue: starts at ``shadow_s`` at the latest, when enough estimates have run out; ``spare``
    processors will then be left over. Another job starts now if it fits, and either is over by the shadow time or
    takes spare processors only.

    Both hold until a job ends or the head changes: jobs that start by these rules move neither. So a submission
    concerns the new job alone; the whole queue is looked at when a job has ended, or its estimate has run out.
    """

    name: ClassVar[str] = "easy"

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests)
        self.free = self.capacity
        self.queue: list[int] = []
        self.expected: list[tuple[float, int]] = []  # (end by estimate, job) of running jobs, sorted
        self.expires: dict[int, float] = {}
        self.shadow_s = -1.0  # negative: not known
        self.spare = 0

    def submitted(self, now: float, job: int) -> Sequence[int]:
        if self.expected and self.expected[0][0] <= now:
            self._expire(now)
            self.queue.append(job)
            return self._pass(now)
        need = self.processors[job]
        queue = self.queue
        if need <= self.free:
            if not queue:
                self._start(now, job)
                return (job,)
            if self.shadow_s < 0:
                self._reserve()
            if now + self.estimate_s[job] <= self.shadow_s:
                self._start(now, job)
                return (job,)
            if need <= self.spare:
                self.spare -= need
                self._start(now, job)
                return (job,)
        elif not queue:
            self.shadow_s = -1.0
        queue.append(job)
        return ()

    def ended(self, now: float, job: int) -> Sequence[int]:
        expires = self.expires.pop(job, None)
        if expires is not None:
            expected = self.expected
            del expected[bisect_left(expected, (expires, job))]
            self.free += self.processors[job]
            if expected and expected[0][0] <= now:
                self._expire(now)
        elif self.expected and self.expected[0][0] <= now:
            self._expire(now)
        return self._pass(now) if self.queue else ()

    def _expire(self, now: float) -> None:
        expected = self.expected
        k = 0
        while k < len(expected) and expected[k][0] <= now:
            job = expected[k][1]
            self.free += self.processors[job]
            del self.expires[job]
            k += 1
        del expected[:k]

    def _start(self, now: float, job: int) -> None:
        self.free -= self.processors[job]
        end = self.expires[job] = now + self.estimate_s[job]
        insort(self.expected, (end, job))

    def _reserve(self) -> None:
        """Shadow time and spare processors of the head of the queue."""
        processors = self.processors
        need = processors[self.queue[0]]
        free = self.free
        shadow = NEVER
        for end, job in self.expected:
            if end > shadow:
                break
            free += processors[job]
            if free >= need:
                shadow = end
        self.shadow_s = shadow
        self.spare = free - need

    def _pass(self, now: float) -> list[int]:
        queue, processors = self.queue, self.processors
        begun: list[int] = []
        while queue and processors[queue[0]] <= self.free:
            begun.append(queue.pop(0))
            self._start(now, begun[-1])
        self.shadow_s = -1.0
        if len(queue) < 2 or not self.free:
            return begun
        self._reserve()
        estimate, window, free, spare = self.estimate_s, self.shadow_s, self.free, self.spare
        filled = []
        for job in queue[1:]:
            need = processors[job]
            if need > free:
                continue
            if now + estimate[job] > window:
                if need > spare:
                    continue
                spare -= need
            free -= need
            filled.append(job)
            if not free:
                break
        self.spare = spare
        for job in filled:
            queue.remove(job)
            self._start(now, job)
        return begun + filled

    def waiting(self) -> int:
        return len(self.queue)

    def state(self) -> dict[str, Any]:
        return {
            "free": self.free,
            "queue": self.queue,
            "expected": self.expected,
            "shadow_s": self.shadow_s,
            "spare": self.spare,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.free, self.queue = state["free"], list(state["queue"])
        self.expected = [(end, job) for end, job in state["expected"]]
        self.expires = {job: end for end, job in self.expected}
        self.shadow_s, self.spare = state["shadow_s"], state["spare"]
