"""First come, first served: the head of the queue starts, or all wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jobsight_scheduler.memory.nodes import Taken

from .base import MemoryPolicy, PolicyInput, Start


class MemoryFcfs(MemoryPolicy):
    """Jobs start in the order of the queue. What the head needs is decided at each pass."""

    name = "fcfs"

    def __init__(self, given: PolicyInput) -> None:
        super().__init__(given)
        self.queue: deque[int] = deque()

    def submitted(self, now: float, job: int) -> Sequence[Start]:
        self.queue.append(job)
        return self._pass() if len(self.queue) == 1 else ()

    def ended(self, now: float, job: int, taken: Taken, *, returns: bool) -> Sequence[Start]:
        self.nodes.give(taken)
        if returns:
            self.queue.appendleft(job)
        return self._pass()

    def _pass(self) -> list[Start]:
        queue, nodes = self.queue, self.nodes
        begun: list[Start] = []
        while queue:
            job = queue[0]
            needed = self.needed(job)
            if nodes.available(needed) < self.count[job]:
                break
            taken = nodes.choose(needed, self.count[job])
            nodes.take(taken)
            begun.append((queue.popleft(), needed, taken))
        return begun
