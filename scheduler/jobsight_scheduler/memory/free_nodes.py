"""Reservations on nodes of several memory sizes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from jobsight_scheduler.policies.plan import Plan

from .nodes import Nodes, Taken


class FreeNodes(Plan[Taken, list[int]]):
    """``free`` is a number of nodes for each class. ``class_of`` says which a job needs now."""

    def __init__(
        self, nodes: Nodes, processors: Sequence[int], estimate_s: Sequence[float], class_of: Sequence[int]
    ) -> None:
        super().__init__(list(nodes.nodes), processors, estimate_s)
        self._nodes, self._class_of = nodes, class_of

    def copy(self, step: list[int]) -> list[int]:
        return list(step)

    def earliest(self, now: float, job: int) -> tuple[float, Taken]:
        needed, count, length = self._class_of[job], self.processors[job], self.estimate_s[job]
        times, free = self.times, self.free
        i, last = 0, len(times) - 1
        while True:
            start = max(times[i], now)
            least: Sequence[int] = free[i]
            j = i
            while sum(least[needed:]) >= count:
                if j == last or times[j + 1] >= start + length:
                    return start, self._nodes.choose_from(least, needed, count)
                j += 1
                least = [min(a, b) for a, b in zip(least, free[j], strict=True)]
            # A step that is too full, or has other nodes, cannot be the start.
            i = j + 1 if sum(free[j][needed:]) < count else i + 1

    def move(
        self, now: float, job: int, old: float, where: Taken, opened: float, must: bool
    ) -> tuple[float, Taken] | None:
        if not must and self._most(now, opened, self._class_of[job]) < self.processors[job]:
            return None
        length = self.estimate_s[job]
        self.give(old, old + length, where)
        new, chosen = self.earliest(now, job)
        if new >= old and not must:
            self.take(old, old + length, where)
            return None
        self.take(new, new + length, chosen)
        return new, chosen

    def _most(self, now: float, until: float, needed: int) -> int:
        """The most nodes of class ``needed`` and above that are free at any time from ``now`` to ``until``."""
        first = max(bisect_right(self.times, now) - 1, 0)
        return max(map(sum, [step[needed:] for step in self.free[first : bisect_left(self.times, until)]]), default=0)

    def take(self, start: float, end: float, where: Taken) -> None:
        i, j = self.edge(start), self.edge(end)
        for step in self.free[i:j]:
            for place, count in where:
                step[place] -= count
        self.join(j)
        self.join(i)

    def give(self, start: float, end: float, where: Taken) -> None:
        self.take(start, end, tuple([(place, -count) for place, count in where]))
