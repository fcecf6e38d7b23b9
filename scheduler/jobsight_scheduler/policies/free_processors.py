"""Reservations on a machine of counted processors."""

from __future__ import annotations

from .plan import Plan


class FreeProcessors(Plan[int, int]):
    """``free`` is a number of processors."""

    def copy(self, step: int) -> int:
        return step

    def earliest(self, now: float, job: int) -> tuple[float, int]:
        need, length = self.processors[job], self.estimate_s[job]
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
                    return start, need
        raise ValueError(f"{need} processors are more than the machine has")

    def move(self, now: float, job: int, old: float, where: int, opened: float, must: bool) -> tuple[float, int] | None:
        length = self.estimate_s[job]
        new = self._earlier(now, old, where, length, opened)
        if new >= old:
            return None
        self.take(new, min(new + length, old), where)
        self.give(max(new + length, old), old + length, where)
        return new, where

    def _earlier(self, now: float, old: float, need: int, length: float, opened: float) -> float:
        """Earliest place before ``old`` for a job that keeps its own processors from there on; ``old`` if none."""
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

    def take(self, start: float, end: float, where: int) -> None:
        free = self.free
        i, j = self.edge(start), self.edge(end)
        for k in range(i, j):
            free[k] -= where
        self.join(j)
        self.join(i)

    def give(self, start: float, end: float, where: int) -> None:
        self.take(start, end, -where)
