"""Free nodes of each class over future time, as a step function."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from .nodes import Nodes, Taken


class FreeNodes:
    """``free[i]`` nodes of each class are free from ``times[i]`` to ``times[i + 1]``; the last step has no end."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.times = [0.0]
        self.free = [list(nodes.nodes)]

    def forget(self, now: float) -> None:
        """Drops steps that are over."""
        times = self.times
        if len(times) > 1 and times[1] <= now:
            past = bisect_right(times, now) - 1
            del times[:past], self.free[:past]

    def earliest(self, now: float, needed: int, count: int, length: float) -> tuple[float, Taken]:
        """Earliest time from ``now`` on from which ``count`` nodes of class ``needed`` and above are free for

        ``length`` seconds, and which a job takes then.
        """
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

    def most(self, now: float, until: float) -> list[int]:
        """The most nodes of each class and above that are free at any time from ``now`` to ``until``."""
        first = max(bisect_right(self.times, now) - 1, 0)
        most = [0] * len(self.free[0])
        for step in self.free[first : bisect_left(self.times, until)]:
            total = 0
            for place in range(len(step) - 1, -1, -1):
                total += step[place]
                if total > most[place]:
                    most[place] = total
        return most

    def take(self, start: float, end: float, taken: Taken) -> None:
        """Takes nodes from ``start`` to ``end``."""
        i, j = self._edge(start), self._edge(end)
        for step in self.free[i:j]:
            for place, count in taken:
                step[place] -= count
        self._join(j)
        self._join(i)

    def give(self, start: float, end: float, taken: Taken) -> None:
        """Gives nodes back from ``start`` to ``end``."""
        self.take(start, end, tuple((place, -count) for place, count in taken))

    def _edge(self, time: float) -> int:
        """Index of the step that begins at ``time``, created if there is none."""
        times = self.times
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            self.free.insert(i, list(self.free[i - 1]))
        return i

    def _join(self, i: int) -> None:
        if 0 < i < len(self.times) and self.free[i] == self.free[i - 1]:
            del self.times[i], self.free[i]
