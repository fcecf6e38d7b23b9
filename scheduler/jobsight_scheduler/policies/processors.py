"""A machine of counted processors: a job's place in it makes no difference."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from jobsight_scheduler.policies.placement import NEVER, Placement, Plan


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

    def move(self, now: float, job: int, old: float, where: int, opened: float) -> tuple[float, int] | None:
        free, length = self.free, self.estimate_s[job]
        new = until = old  # from then on, the job keeps its own processors
        for i, when in enumerate(self.times):
            if when >= until:
                break
            if free[i] < where:
                if when >= opened:
                    return None
                new = until = old
            elif new == old:
                if when >= opened:
                    return None
                new = when if i else now
                until = new + length if new + length < old else old
        if new == old:
            return None
        self.take(new, until, where)
        self.give(max(new + length, old), old + length, where)
        return new, where

    def take(self, start: float, end: float, where: int) -> None:
        free = self.free
        i, j = self.edge(start), self.edge(end)
        for k in range(i, j):
            free[k] -= where
        self.join(j)
        self.join(i)

    def give(self, start: float, end: float, where: int) -> None:
        self.take(start, end, -where)


class Processors(Placement[int]):
    """``spare`` processors will be left over when the head starts."""

    def __init__(self, capacity: int, processors: Sequence[int], estimate_s: Sequence[float]) -> None:
        super().__init__(processors, estimate_s)
        self.free = capacity
        self.spare = 0

    def find(self, job: int) -> int | None:
        need = self.processors[job]
        return need if need <= self.free else None

    find_first = find

    def plan(self) -> FreeProcessors:
        return FreeProcessors(self.free, self.processors, self.estimate_s)

    def take(self, job: int, where: int) -> None:
        self.free -= where

    def give(self, job: int) -> None:
        self.free += self.processors[job]

    def start(self, now: float, job: int, where: int) -> None:  # as in the base, faster; ``end`` and ``fill`` too
        self.free -= where
        end = self.expires[job] = now + self.estimate_s[job]
        insort(self.expected, (end, job))

    def end(self, now: float, job: int) -> None:
        expected = self.expected
        end = self.expires.pop(job, None)
        if end is not None:
            del expected[bisect_left(expected, (end, job))]
            self.free += self.processors[job]
        if expected and expected[0][0] <= now:
            self.expire(now)

    def reserve(self, head: int) -> None:
        processors = self.processors
        need, free, shadow = processors[head], self.free, NEVER
        ends = iter(self.expected)
        for end, job in ends:
            free += processors[job]
            if free >= need:
                shadow = end
                break
        for end, job in ends:
            if end > shadow:
                break
            free += processors[job]
        self.shadow_s, self.spare = shadow, free - need

    def keeps(self, now: float, job: int, where: int) -> bool:
        if now + self.estimate_s[job] > self.shadow_s:
            if where > self.spare:
                return False
            self.spare -= where
        return True

    def fill(self, now: float, jobs: Iterable[int]) -> list[int]:
        processors, estimate, until = self.processors, self.estimate_s, self.shadow_s
        free, spare = self.free, self.spare
        found = []
        for job in jobs:
            need = processors[job]
            if need > free:
                continue
            if now + estimate[job] > until:
                if need > spare:
                    continue
                spare -= need
            free -= need
            found.append(job)
            if not free:
                break
        self.spare = spare
        for job in found:
            self.start(now, job, processors[job])
        return found

    def room(self) -> tuple[int, int]:
        return self.free, self.spare
