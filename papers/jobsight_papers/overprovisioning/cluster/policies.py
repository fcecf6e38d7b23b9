"""Policies for jobs whose memory is chosen when they arrive, may change while they wait, and may prove too little.

``returned`` takes in the failure of a running job, now first in the queue, and returns the jobs that start now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from jobsight_papers.overprovisioning.cluster.placement import NodePlacement
from jobsight_scheduler.policies.base import NEVER, JobRequests
from jobsight_scheduler.policies.block_queue import BLOCK, BlockQueue
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.fcfs import Fcfs
from jobsight_scheduler.policies.placement import Placement


class MemoryFcfs(Fcfs):
    """First come, first served."""

    machine: NodePlacement

    def returned(self, now: float, job: int) -> Sequence[int]:
        self.queues[0].insert(0, job)
        return self.ended(now, job)


class ClassQueue(BlockQueue):
    """A queue with a table of the shortest jobs for each class of nodes; ``class_of`` is the class that a job needs."""

    half = BLOCK // 4

    def __init__(
        self,
        needs: Sequence[int],
        lengths: Sequence[float],
        key: Callable[[int], tuple[float, int]],
        class_of: Sequence[int],
        classes: int,
    ) -> None:
        super().__init__(needs, lengths, key)
        self._class_of, self._rows = class_of, len(self._shortest)
        self._shortest = np.full((classes * self._rows, 1), NEVER)

    def touch(self, job: int) -> None:
        """Move ``job`` to its new class."""
        if len(self.blocks) > 1:
            i = self._block_of(self._place(job))
            self._enter(job, i)
            self._stale.add(i)

    def hopeful(self, i: int, now: float, machine: Placement[Any]) -> int:
        assert isinstance(machine, NodePlacement)
        if i == 0:
            return 0
        until, last = machine.shadow_s, len(self._class) - 1
        hope = np.zeros(len(self.blocks) - i, dtype=bool)
        rows = []
        for number, (free, spare) in enumerate(machine.room_by_class()):
            within = number * self._rows + self._class[min(free, last)]
            beyond = number * self._rows + self._class[min(free, spare, last)]
            rows.append((within, beyond))
            hope |= (now + self._shortest[within, i:] <= until) | (self._shortest[beyond, i:] < NEVER)
        for k in (np.flatnonzero(hope) + i).tolist():
            if k in self._stale:
                self._refresh(k)
            column = self._shortest[:, k]
            if any(now + column[within] <= until or column[beyond] < NEVER for within, beyond in rows):
                return int(k)
        return -1

    def _enter(self, job: int, i: int) -> None:
        number = self._class_of[job]
        column = self._shortest[number * self._rows + self._class[self._needs[job]] : (number + 1) * self._rows, i]
        np.minimum(column, self._lengths[job], out=column)

    def _refresh(self, i: int) -> None:
        columns = [[NEVER] * self._rows for _ in range(len(self._shortest) // self._rows)]
        for job in self.blocks[i]:
            column, row = columns[self._class_of[job]], self._class[self._needs[job]]
            column[row] = min(column[row], self._lengths[job])
        self._shortest[:, i] = [length for column in columns for length in accumulate(column, min)]
        self._stale.discard(i)


class MemoryEasy(Easy):
    """EASY backfilling. A job that returned last is first in the queue."""

    machine: NodePlacement
    queue: ClassQueue

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        machine = self.machine
        classes = len(machine.nodes.nodes)
        self.queue = ClassQueue(self.processors, self.estimate_s, self._place, machine.class_of, classes)
        self.returns: dict[int, int] = {}  # job -> number of its last return; the latest is first in the queue
        self.count = 0

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.machine.arrive(job)
        return super().submitted(now, job)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self._learn_end(now, job)
        return self._pass(now) if self.queue.blocks[0] else ()

    def returned(self, now: float, job: int) -> Sequence[int]:
        self._learn_end(now, job)
        self.machine.arrive(job)
        self.count += 1
        self.returns[job] = self.count
        self.queue.add(job)
        return self._pass(now)

    def _learn_end(self, now: float, job: int) -> None:
        self.machine.end(now, job)
        for other in self.machine.learned(job):
            self.queue.touch(other)

    def _place(self, job: int) -> tuple[float, int]:
        return -float(self.returns.get(job, 0)), job


MemoryPolicy = MemoryFcfs | MemoryEasy

MEMORY_POLICIES: dict[str, type[MemoryPolicy]] = {
    "fcfs": MemoryFcfs,
    "easy": MemoryEasy,
}
