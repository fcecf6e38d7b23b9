"""First come, first served: the head of the queue starts, or all wait."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from jobsight_scheduler.policies.base import JobRequests, Policy


class Fcfs(Policy):
    """Jobs start in the order of their queue, as soon as they fit. Needs no estimates.

    ``queue_of`` and ``rank`` are by job: one queue, and the order of submission, if empty. A queue whose head does not
    fit holds up no other.
    """

    name: ClassVar[str] = "fcfs"

    def __init__(self, requests: JobRequests, queue_of: Sequence[int] = (), rank: Sequence[int] = ()) -> None:
        super().__init__(requests)
        self.queue_of, self.rank = queue_of, rank
        self.queues: defaultdict[int, list[int]] = defaultdict(list)

    def submitted(self, now: float, job: int) -> Sequence[int]:
        queue = self.queues[self.queue_of[job] if self.queue_of else 0]
        if self.rank:
            insort(queue, job, key=self.rank.__getitem__)
        else:
            queue.append(job)
        return self._start(queue) if queue[0] == job else ()

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.machine.give(job)
        return self.reconsider(now)

    def withdraw(self, job: int) -> None:
        self.queues[self.queue_of[job] if self.queue_of else 0].remove(job)

    def reconsider(self, now: float) -> list[int]:
        begun: list[int] = []
        for queue in sorted(filter(None, self.queues.values())):
            begun += self._start(queue)
        return begun

    def _start(self, queue: list[int]) -> list[int]:
        """Start jobs of a queue until one does not fit."""
        machine = self.machine
        begun = []
        while queue and (where := machine.find_first(queue[0])) is not None:
            begun.append(queue.pop(0))
            machine.take(begun[-1], where)
        return begun
