"""EASY backfilling (Lifka 1995): the head of the queue has a reservation; others may jump ahead if they keep it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jobsight_scheduler.policies.base import JobRequests, Policy
from jobsight_scheduler.policies.block_queue import BlockQueue
from jobsight_scheduler.policies.placement import UNKNOWN


class Easy(Policy):
    """The head of the queue starts at the machine's ``shadow_s`` at the latest. Another job starts now if it fits, and
    either ends by then or leaves room for the head.

    The reservation is valid until a job ends or the head changes: jobs that start by these rules do not move it. So
    only the new job is considered at a submission; the whole queue when a job has ended or its estimate has run out.

    ``rank``: by job, its place in the queue, the least first; in order of submission if empty.
    """

    name: ClassVar[str] = "easy"

    def __init__(self, requests: JobRequests, rank: Sequence[int] = ()) -> None:
        super().__init__(requests)
        self.rank = rank
        key = (lambda job: (rank[job], job)) if rank else None
        self.queue = BlockQueue(self.processors, self.estimate_s, key)

    def submitted(self, now: float, job: int) -> Sequence[int]:
        machine, queue = self.machine, self.queue
        expected = machine.expected
        if self.rank or (expected and expected[0][0] <= now):
            machine.expire(now)
            queue.add(job)
            return self._pass(now)
        where = machine.find(job)
        if where is None:
            queue.add(job)
            return ()
        waiting = queue.blocks[0]
        if waiting:
            if machine.shadow_s == UNKNOWN:
                machine.reserve(waiting[0])
            if not machine.keeps(now, job, where):
                queue.add(job)
                return ()
        machine.start(now, job, where)
        return (job,)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.machine.end(now, job)
        return self._pass(now) if self.queue.blocks[0] else ()

    def withdraw(self, job: int) -> None:
        self.queue.remove(job)
        self.machine.shadow_s = UNKNOWN

    def reconsider(self, now: float) -> Sequence[int]:
        self.machine.expire(now)
        return self._pass(now)

    def _pass(self, now: float) -> list[int]:
        machine, queue = self.machine, self.queue
        blocks = queue.blocks
        begun: list[int] = []
        while blocks[0] and (where := machine.find_first(blocks[0][0])) is not None:
            begun.append(queue.pop())
            machine.start(now, begun[-1], where)
        machine.shadow_s = UNKNOWN
        if machine.free and (len(blocks) > 1 or len(blocks[0]) > 1):
            machine.reserve(blocks[0][0])
            begun += self._fill(now)
        return begun

    def _fill(self, now: float) -> list[int]:
        """Start jobs that keep the reservation, in the order of the queue."""
        machine, queue = self.machine, self.queue
        filled: list[int] = []
        i = 0
        while i >= 0:
            found = machine.fill(now, queue.blocks[i])
            filled += found
            if not (found and queue.take(i, found)):
                i += 1
            i = queue.hopeful(i, now, machine) if i < len(queue.blocks) and machine.free else -1
        return filled
