"""The interface of a machine to policies: room for a job now, and reservations over future time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

Where = TypeVar("Where")
Step = TypeVar("Step")


class Plan(ABC, Generic[Where, Step]):
    """A plan in steps: ``free[i]`` is free from ``times[i]`` to ``times[i + 1]``; the last step has no end and is
    empty.

    A job holds its time slot for its requested time.
    """

    def __init__(self, all_free: Step, processors: Sequence[int], estimate_s: Sequence[float]) -> None:
        self.processors, self.estimate_s = processors, estimate_s
        self.times = [0.0]
        self.free = [all_free]

    @abstractmethod
    def earliest(self, now: float, job: int) -> tuple[float, Where]:
        """Return the earliest time slot for a job, from ``now`` on."""

    @abstractmethod
    def move(self, now: float, job: int, old: float, where: Where, opened: float) -> tuple[float, Where] | None:
        """Move a reservation to an earlier time slot that begins before ``opened``, and return it; None if there is
        none.
        """

    @abstractmethod
    def take(self, start: float, end: float, where: Where) -> None:
        """Take a time slot from ``start`` to ``end``."""

    @abstractmethod
    def give(self, start: float, end: float, where: Where) -> None:
        """Give a time slot back."""

    @abstractmethod
    def copy(self, step: Step) -> Step:
        """Return an independent copy of the step."""

    def book(self, now: float, job: int) -> tuple[float, Where]:
        """Take the earliest time slot."""
        start, where = self.earliest(now, job)
        self.take(start, start + self.estimate_s[job], where)
        return start, where

    def forget(self, now: float) -> None:
        """Drop steps that are over."""
        times = self.times
        if len(times) > 1 and times[1] <= now:
            past = bisect_right(times, now) - 1
            del times[:past], self.free[:past]

    def edge(self, time: float) -> int:
        """Return the index of the step that begins at ``time``, created if there is none."""
        times = self.times
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            self.free.insert(i, self.copy(self.free[i - 1]))
        return i

    def join(self, i: int) -> None:
        """Merge step ``i`` with the step before, if they are equal."""
        if 0 < i < len(self.times) and self.free[i] == self.free[i - 1]:
            del self.times[i], self.free[i]


NEVER = float("inf")
UNKNOWN = -1.0


class Placement(ABC, Generic[Where]):
    """``free`` processors in all; ``expected`` ends of running jobs, sorted. Jobs whose estimate has run out count as
    ended, unless a machine knows better.

    The head of the queue has a reservation: it starts at ``shadow_s`` at the latest.
    """

    free: int

    def __init__(self, processors: Sequence[int], estimate_s: Sequence[float]) -> None:
        self.processors, self.estimate_s = processors, estimate_s
        self.expected: list[tuple[float, int]] = []  # (end, job)
        self.expires: dict[int, float] = {}  # the same by job
        self.shadow_s = UNKNOWN

    @abstractmethod
    def find(self, job: int) -> Where | None:
        """Return the job's place if it started now; None if it has to wait."""

    def find_first(self, job: int) -> Where | None:
        """Return the place of the head of the queue, whose needs may be computed again."""
        return self.find(job)

    @abstractmethod
    def take(self, job: int, where: Where) -> None:
        """Take the place for a job that starts."""

    @abstractmethod
    def give(self, job: int) -> None:
        """Give the place of an ended job back."""

    @abstractmethod
    def reserve(self, head: int) -> None:
        """Set ``shadow_s``: the head's start by the expected ends of the running jobs."""

    @abstractmethod
    def keeps(self, now: float, job: int, where: Where) -> bool:
        """Return whether the head can still start at ``shadow_s`` if the job starts there now."""

    @abstractmethod
    def room(self) -> tuple[int, int]:
        """Return the most processors for a job now, and for one that does not end by ``shadow_s``."""

    def plan(self) -> Plan[Where, Any]:
        """Return an empty plan of reservations on this machine."""
        raise NotImplementedError(f"{type(self).__name__} keeps no reservations for all waiting jobs")

    def start(self, now: float, job: int, where: Where) -> None:
        """Start the job there; it should end when its estimate has run out."""
        self.take(job, where)
        self.expect(job, now + self.estimate_s[job])

    def fill(self, now: float, jobs: Iterable[int]) -> list[int]:
        """Start those of ``jobs`` that fit and keep the reservation; return them."""
        found = []
        for job in jobs:
            if self.processors[job] > self.free:
                continue
            where = self.find(job)
            if where is not None and self.keeps(now, job, where):
                self.start(now, job, where)
                found.append(job)
        return found

    def expect(self, job: int, end: float) -> None:
        """Expect a running job to end at ``end``."""
        if job in self.expires:
            del self.expected[bisect_left(self.expected, (self.expires[job], job))]
        self.expires[job] = end
        insort(self.expected, (end, job))

    def end(self, now: float, job: int) -> None:
        """Take in the end of a running job."""
        end = self.expires.pop(job, None)
        if end is not None:  # otherwise it had expired
            del self.expected[bisect_left(self.expected, (end, job))]
            self.give(job)
        if self.expected and self.expected[0][0] <= now:
            self.expire(now)

    def expire(self, now: float) -> None:
        """Count jobs whose estimate runs out now as ended."""
        expected = self.expected
        while expected and expected[0][0] <= now:
            _, job = expected.pop(0)
            del self.expires[job]
            self.give(job)
