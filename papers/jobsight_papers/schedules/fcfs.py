"""First come, first served: the head of the queue starts, or all wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from jobsight_scheduler.policies.base import JobRequests, Policy


class Fcfs(Policy):
    """Jobs start in the order of the queue, as soon as they fit. Needs no estimates."""

    name: ClassVar[str] = "fcfs"

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.queue: deque[int] = deque()

    def submitted(self, now: float, job: int) -> Sequence[int]:
        if self.queue or (where := self.machine.find_first(job)) is None:
            self.queue.append(job)
            return ()
        self.machine.take(job, where)
        return (job,)

    def ended(self, now: float, job: int) -> Sequence[int]:
        queue, machine = self.queue, self.machine
        machine.give(job)
        begun = []
        while queue and (where := machine.find_first(queue[0])) is not None:
            begun.append(queue.popleft())
            machine.take(begun[-1], where)
        return begun
