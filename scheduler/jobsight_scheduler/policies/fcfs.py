"""First come, first served: the head of the queue starts, or all wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from .base import JobRequests, Policy


class Fcfs(Policy):
    """Needs no estimates: jobs start in the order of the queue, as soon as processors become free."""

    name: ClassVar[str] = "fcfs"

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.free = self.capacity
        self.queue: deque[int] = deque()

    def submitted(self, now: float, job: int) -> Sequence[int]:
        if self.queue or self.processors[job] > self.free:
            self.queue.append(job)
            return ()
        self.free -= self.processors[job]
        return (job,)

    def ended(self, now: float, job: int) -> Sequence[int]:
        queue, processors = self.queue, self.processors
        free = self.free + processors[job]
        begun = []
        while queue and processors[queue[0]] <= free:
            head = queue.popleft()
            free -= processors[head]
            begun.append(head)
        self.free = free
        return begun

    def state(self) -> dict[str, Any]:
        return {"free": self.free, "queue": list(self.queue)}

    def restore(self, state: dict[str, Any]) -> None:
        self.free = state["free"]
        self.queue = deque(state["queue"])
