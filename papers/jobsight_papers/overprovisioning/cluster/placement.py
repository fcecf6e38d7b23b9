"""Placement on nodes of several memory sizes: the class of nodes that each job needs, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs
from jobsight_papers.overprovisioning.cluster.nodes import Nodes, Taken, smallest_fit
from jobsight_scheduler.policies.placement import NEVER, Placement


class NodePlacement(Placement[Taken]):
    """``needed`` returns the class of nodes that a job needs now; it may change once a job of its group has ended. Jobs
    of one group with the same number in ``alike`` need the same: the class is computed once, since thousands may wait.
    A failed job has its own class.
    """

    def __init__(
        self,
        nodes: Nodes,
        jobs: MemoryJobs,
        alike: Sequence[int],
        needed: Callable[[int], int],
    ) -> None:
        super().__init__(jobs.work.processors.tolist(), jobs.work.estimate_s.tolist())
        self.nodes, self._needed, self._alike_of = nodes, needed, alike
        self.free = sum(nodes.free)
        self.class_of = [0] * len(jobs)
        self.where: dict[int, Taken] = {}
        self._group: list[int] = jobs.group.tolist()
        self._waiting: dict[int, dict[int, dict[int, None]]] = {}  # group -> jobs that need the same
        self._failed: set[int] = set()
        self._head_needs, self._spare = 0, 0

    def arrive(self, job: int) -> None:
        """Take in a waiting job."""
        self.class_of[job] = self._needed(job)
        self._waiting.setdefault(self._group[job], {}).setdefault(self._same(job), {})[job] = None

    def learned(self, ended: int) -> list[int]:
        """Take in an end; return the waiting jobs that need another class of nodes now."""
        changed = []
        for alike in self._waiting.get(self._group[ended], {}).values():
            needed = -1
            for job in alike:
                if needed < 0:
                    needed = self._needed(job)
                if needed != self.class_of[job]:
                    self.class_of[job] = needed
                    changed.append(job)
        return changed

    def find_first(self, job: int) -> Taken | None:
        self.class_of[job] = self._needed(job)
        return self.find(job)

    def find(self, job: int) -> Taken | None:
        needed, count = self.class_of[job], self.processors[job]
        return smallest_fit(self.nodes.free, needed, count) if self.nodes.available(needed) >= count else None

    def take(self, job: int, where: Taken) -> None:
        self.nodes.take(where)
        self.where[job] = where
        self.free -= self.processors[job]
        group = self._waiting.get(self._group[job], {})
        if alike := group.get(self._same(job)):
            alike.pop(job, None)
            if not alike:
                del group[self._same(job)]
        self._failed.add(job)

    def give(self, job: int) -> None:
        self.nodes.give(self.where.pop(job))
        self.free += self.processors[job]

    def reserve(self, head: int) -> None:
        needed, need = self.class_of[head], self.processors[head]
        available, shadow = self.nodes.available(needed), NEVER
        for end, job in self.expected:
            if end > shadow:
                break
            available += sum([count for place, count in self.where[job] if place >= needed])
            if available >= need:
                shadow = end
        self._head_needs, self.shadow_s, self._spare = needed, shadow, available - need

    def keeps(self, now: float, job: int, where: Taken) -> bool:
        if now + self.estimate_s[job] > self.shadow_s:
            of_head = sum([count for place, count in where if place >= self._head_needs])
            if of_head > self._spare:
                return False
            self._spare -= of_head
        return True

    def fill(self, now: float, jobs: Iterable[int]) -> list[int]:
        count, class_of = self.processors, self.class_of
        available = [self.nodes.available(needed) for needed in range(len(self.nodes.free))]
        return super().fill(now, [job for job in jobs if count[job] <= available[class_of[job]]])

    def room(self) -> tuple[int, int]:
        return self.room_by_class()[0]

    def room_by_class(self) -> list[tuple[int, int]]:
        """Return ``room`` for a job that needs each class."""
        free = self.nodes.free
        # Nodes below the head's class are spare as well.
        return [(sum(free[k:]), self._spare + sum(free[k : self._head_needs])) for k in range(len(free))]

    def _same(self, job: int) -> int:
        return -1 - job if job in self._failed else self._alike_of[job]
