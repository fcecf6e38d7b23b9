"""Nodes of several memory sizes, and the free ones over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobsight_scheduler.policies.placement import Plan
from jobsight_server.replay.machines import nodes_of_classes

Taken = tuple[tuple[int, int], ...]
"""(class, nodes) of a job."""
Choose = Callable[[Sequence[int], int, int], Taken]
"""``choose(free, needed, count)``: ``count`` free nodes of class ``needed`` and above."""

MIB = 2.0**20


@dataclass(frozen=True, slots=True)
class NodeClass:
    """``count`` nodes with ``memory_bytes`` each."""

    count: int
    memory_bytes: float


def parse_classes(text: str) -> list[NodeClass]:
    """Node classes in order of their memory, from text such as ``512x32M,512x24M``; those of one size are joined.

    Raises:
        ValueError: the text is malformed, or a class has no nodes or no memory.
    """
    sizes, counts = np.unique(nodes_of_classes(text).memory_bytes, return_counts=True)
    return [NodeClass(count, memory) for memory, count in zip(sizes.tolist(), counts.tolist(), strict=True)]


class Nodes:
    """Free nodes by class, in order of memory. A job of class k may take nodes of class k and above."""

    def __init__(self, classes: Sequence[NodeClass], choose: Choose | None = None) -> None:
        self.memory_bytes = [entry.memory_bytes for entry in classes]
        self.nodes = [entry.count for entry in classes]
        self.free = list(self.nodes)
        self.choose = choose or smallest_fit

    def available(self, needed: int) -> int:
        """Return the number of free nodes of class ``needed`` and above."""
        return sum(self.free[needed:])

    def take(self, taken: Taken) -> None:
        """Take nodes that are free."""
        for place, count in taken:
            self.free[place] -= count

    def give(self, taken: Taken) -> None:
        """Give nodes back."""
        for place, count in taken:
            self.free[place] += count


def smallest_fit(free: Sequence[int], needed: int, count: int) -> Taken:
    """Fill the smallest that are large enough first."""
    return in_turn(free, range(needed, len(free)), count)


def in_turn(free: Sequence[int], places: Sequence[int], count: int) -> Taken:
    """Fill one class after the other."""
    taken = []
    for place in places:
        here = free[place]
        if here >= count:
            taken.append((place, count))
            break
        if here:
            taken.append((place, here))
            count -= here
    return tuple(taken)


class FreeNodes(Plan[Taken, list[int]]):
    """Free nodes over time: ``free`` is a number of nodes for each class. ``class_of`` returns the class that a job
    needs now; ``changed`` has the jobs that must move to their earliest slot, even a later one.
    """

    def __init__(
        self, nodes: Nodes, processors: Sequence[int], estimate_s: Sequence[float], class_of: Sequence[int]
    ) -> None:
        super().__init__(list(nodes.nodes), processors, estimate_s)
        self._nodes, self._class_of = nodes, class_of
        self.changed: set[int] = set()

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
                    return start, self._nodes.choose(least, needed, count)
                j += 1
                least = [min(a, b) for a, b in zip(least, free[j], strict=True)]
            # The job cannot start in a step that is too full or has other nodes.
            i = j + 1 if sum(free[j][needed:]) < count else i + 1

    def move(self, now: float, job: int, old: float, where: Taken, opened: float) -> tuple[float, Taken] | None:
        must = job in self.changed
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
        """Return the most nodes of class ``needed`` and above that are free at any time from ``now`` to ``until``."""
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
