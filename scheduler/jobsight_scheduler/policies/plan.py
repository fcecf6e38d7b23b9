"""Reservations: what is free over future time, as a step function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Generic, TypeVar

Where = TypeVar("Where")
Step = TypeVar("Step")


class Plan(ABC, Generic[Where, Step]):
    """``free[i]`` is free from ``times[i]`` to ``times[i + 1]``; the last step has no end and is empty.

    A job holds its place for its requested time.
    """

    def __init__(self, all_free: Step, processors: Sequence[int], estimate_s: Sequence[float]) -> None:
        self.processors, self.estimate_s = processors, estimate_s
        self.times = [0.0]
        self.free = [all_free]

    @abstractmethod
    def earliest(self, now: float, job: int) -> tuple[float, Where]:
        """The earliest place for a job, from ``now`` on."""

    @abstractmethod
    def move(
        self, now: float, job: int, old: float, where: Where, opened: float, must: bool
    ) -> tuple[float, Where] | None:
        """Moves a reservation to an earlier place if there is one that begins before ``opened``, and returns it; None
        if it stays. With ``must``, to its earliest place, wherever that is.
        """

    @abstractmethod
    def take(self, start: float, end: float, where: Where) -> None:
        """Takes a place from ``start`` to ``end``."""

    @abstractmethod
    def give(self, start: float, end: float, where: Where) -> None:
        """Gives a place back."""

    @abstractmethod
    def copy(self, step: Step) -> Step:
        """The same step, to be changed by itself."""

    def book(self, now: float, job: int) -> tuple[float, Where]:
        """Takes the earliest place."""
        start, where = self.earliest(now, job)
        self.take(start, start + self.estimate_s[job], where)
        return start, where

    def forget(self, now: float) -> None:
        """Drops steps that are over."""
        times = self.times
        if len(times) > 1 and times[1] <= now:
            past = bisect_right(times, now) - 1
            del times[:past], self.free[:past]

    def edge(self, time: float) -> int:
        """Index of the step that begins at ``time``, created if there is none."""
        times = self.times
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            self.free.insert(i, self.copy(self.free[i - 1]))
        return i

    def join(self, i: int) -> None:
        """Makes step ``i`` one with the step before, if they are equal."""
        if 0 < i < len(self.times) and self.free[i] == self.free[i - 1]:
            del self.times[i], self.free[i]
