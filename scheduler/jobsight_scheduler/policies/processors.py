"""A machine of counted processors: a job's place in it makes no difference."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any

from .free_processors import FreeProcessors
from .placement import NEVER, Placement


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

    def room(self) -> Sequence[tuple[int, int]]:
        return ((self.free, self.spare),)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "spare": self.spare}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.spare = state["spare"]
