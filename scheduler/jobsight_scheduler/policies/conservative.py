"""Conservative backfilling (Mu'alem and Feitelson 2001): every job has a reservation that no later job may delay."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any, ClassVar

from jobsight_scheduler.policies.base import NEVER, JobRequests, Policy, QueueTooLongError

LONGEST_QUEUE = 20_000
"""Beyond this, reconsidering every reservation at every end takes days."""


class Conservative(Policy):
    """A job gets the earliest time slot at its submission. After each end, the waiting jobs move in order to the
    earliest slot that all other reservations leave.

    New openings lie before ``open_until_s``: the latest end freed since all jobs were last considered.
    """

    name: ClassVar[str] = "conservative"

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.plan = self.machine.plan()
        self.queue: dict[int, tuple[float, int, Any]] = {}  # job -> start, number of the reservation, where; in order
        self.agenda: list[tuple[float, int, int]] = []  # (start, number of the reservation, job), sorted
        self.count = 0
        self.running: dict[int, tuple[float, Any]] = {}  # job -> end of its request, where
        self.open_until_s = -1.0

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.plan.forget(now)
        start, where = self.plan.book(now, job)
        if start == now:
            self._begin(now, job, where)
            return (job,)
        self._reserve(job, start, where)
        if len(self.queue) > LONGEST_QUEUE:
            raise QueueTooLongError(
                f"{len(self.queue):,} jobs wait at {now:.0f} s: conservative backfilling keeps a reservation for each "
                "and looks at all of them at each end; use easy, or lower the load"
            )
        return ()

    def ended(self, now: float, job: int) -> Sequence[int]:
        opened = self._leave(now, job)
        if opened <= now or not self.queue:
            self.open_until_s = -1.0
            return ()
        return self._compress(now, opened)

    def woken(self, now: float) -> Sequence[int]:
        begun = []
        while self.agenda and self.agenda[0][0] <= now:
            _, _, job = self.agenda.pop(0)
            self._begin(now, job, self.queue.pop(job)[2])
            begun.append(job)
        self._next_wake()
        return begun

    def _reserve(self, job: int, start: float, where: Any) -> None:
        self.queue[job] = start, self.count, where
        insort(self.agenda, (start, self.count, job))
        self.count += 1
        self.wake_s = self.agenda[0][0]

    def _begin(self, now: float, job: int, where: Any) -> None:
        self.machine.take(job, where)
        self.running[job] = now + self.estimate_s[job], where

    def _leave(self, now: float, job: int) -> float:
        """Give back the job's unused time; return the end of the new opening."""
        expires, where = self.running.pop(job)
        self.plan.forget(now)
        self.machine.give(job)
        if expires <= now:
            return self.open_until_s
        self.plan.give(now, expires, where)
        return max(self.open_until_s, expires)

    def _next_wake(self) -> None:
        self.wake_s = self.agenda[0][0] if self.agenda else NEVER

    def _compress(self, now: float, opened: float) -> list[int]:
        move, queue, estimate = self.plan.move, self.queue, self.estimate_s
        begun: list[int] = []
        moved_until = -1.0
        for job, (old, number, where) in list(queue.items()):
            moved = move(now, job, old, where, opened)
            if moved is None:
                continue
            if moved != (old, where):
                opened, moved_until = max(opened, old + estimate[job]), max(moved_until, old + estimate[job])
            del self.agenda[bisect_left(self.agenda, (old, number, job))]
            if moved[0] == now:
                del queue[job]
                self._begin(now, job, moved[1])
                begun.append(job)
            else:
                self._reserve(job, *moved)
        self._next_wake()
        self.open_until_s = moved_until
        return begun
