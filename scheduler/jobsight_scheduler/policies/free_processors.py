"""Free processors over future time, as a step function."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class FreeProcessors:
    """``free[i]`` processors are free from ``times[i]`` to ``times[i + 1]``; the last step has no end and is empty."""

    def __init__(self, capacity: int) -> None:
        self.times = [0.0]
        self.free = [capacity]

    def forget(self, now: float) -> None:
        """Drops steps that are over."""
        times = self.times
        if len(times) > 1 and times[1] <= now:
            past = bisect_right(times, now) - 1
            del times[:past], self.free[:past]

    def earliest(self, now: float, need: int, length: float) -> float:
        """Earliest time from ``now`` on from which ``need`` processors are free for ``length`` seconds."""
        free, times = self.free, self.times
        start, place = now, -1
        for i, left in enumerate(free):
            if left < need:
                place = -1
            else:
                if place < 0:
                    place = i
                    start = times[i] if i else now
                if i + 1 == len(free) or times[i + 1] >= start + length:
                    return start
        raise ValueError(f"{need} processors are more than the machine has")

    def earlier(self, now: float, old: float, need: int, length: float, opened: float) -> float:
        """Earliest place before ``old`` for a job reserved from there on; ``old`` if there is none.

        The job keeps its own processors at and after ``old``. Only places that begin before ``opened`` count.
        """
        free, times = self.free, self.times
        start = old
        for i, left in enumerate(free):
            when = times[i]
            if when >= old:
                break
            if left < need:
                if when >= opened:
                    return old
                start = old
            elif start == old:
                if when >= opened:
                    return old
                start = when if i else now
                end = start + length
                if i + 1 == len(free) or times[i + 1] >= end:
                    return start
            elif i + 1 == len(free) or times[i + 1] >= end:
                return start
        return start

    def take(self, start: float, end: float, count: int) -> None:
        """Takes ``count`` processors from ``start`` to ``end``."""
        free = self.free
        i, j = self._edge(start), self._edge(end)
        for k in range(i, j):
            free[k] -= count
        self._join(j)
        self._join(i)

    def give(self, start: float, end: float, count: int) -> None:
        """Gives ``count`` processors back from ``start`` to ``end``."""
        self.take(start, end, -count)

    def move(self, old: float, new: float, need: int, length: float) -> None:
        """Moves a reservation from ``old`` to ``new``, which is earlier; changes only the steps that matter."""
        self.take(new, min(new + length, old), need)
        self.give(max(new + length, old), old + length, need)

    def _edge(self, time: float) -> int:
        """Index of the step that begins at ``time``, created if there is none."""
        times = self.times
        i = bisect_left(times, time)
        if i == len(times) or times[i] != time:
            times.insert(i, time)
            self.free.insert(i, self.free[i - 1])
        return i

    def _join(self, i: int) -> None:
        if 0 < i < len(self.times) and self.free[i] == self.free[i - 1]:
            del self.times[i], self.free[i]
