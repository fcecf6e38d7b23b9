"""Conservative backfilling (Mu'alem and Feitelson 2001): every job has a reservation that no later job may delay."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any, ClassVar

from .base import NEVER, JobRequests, Policy, QueueTooLongError
from .free_processors import FreeProcessors

LONGEST_QUEUE = 20_000
"""Beyond this, reconsidering every reservation at every end takes days."""


class Conservative(Policy):
    """A job gets the earliest place when it is submitted. After each end, the waiting jobs are considered in order, and
    each moves to the earliest place that is open given all other reservations.

    New openings lie before ``open_until_s``: the end of what was freed since all jobs were last considered.
    """

    name: ClassVar[str] = "conservative"

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.profile = FreeProcessors(self.capacity)
        self.queue: dict[int, float] = {}  # waiting job -> reserved start, in the order of submission
        self.agenda: list[tuple[float, int, int]] = []  # (reserved start, number of the reservation, job), sorted
        self.made: dict[int, int] = {}  # waiting job -> number of its reservation
        self.count = 0
        self.expires: dict[int, float] = {}
        self.open_until_s = -1.0

    def submitted(self, now: float, job: int) -> Sequence[int]:
        profile, need, length = self.profile, self.processors[job], self.estimate_s[job]
        profile.forget(now)
        start = profile.earliest(now, need, length)
        profile.take(start, start + length, need)
        if start == now:
            self.expires[job] = start + length
            return (job,)
        self._plan(job, start)
        if len(self.queue) > LONGEST_QUEUE:
            raise QueueTooLongError(
                f"{len(self.queue):,} jobs wait at {now:.0f} s: conservative backfilling keeps a reservation for each "
                "and looks at all of them at each end; use easy, or lower the load"
            )
        return ()

    def ended(self, now: float, job: int) -> Sequence[int]:
        expires = self.expires.pop(job)
        self.profile.forget(now)
        opened = self.open_until_s
        if expires > now:
            self.profile.give(now, expires, self.processors[job])
            opened = max(opened, expires)
        if opened <= now or not self.queue:
            self.open_until_s = -1.0
            return ()
        return self._replan(now, opened)

    def woken(self, now: float) -> Sequence[int]:
        begun = []
        while self.agenda and self.agenda[0][0] <= now:
            start, _, job = self.agenda.pop(0)
            begun.append(job)
            del self.queue[job], self.made[job]
            self.expires[job] = start + self.estimate_s[job]
        self.wake_s = self.agenda[0][0] if self.agenda else NEVER
        return begun

    def _plan(self, job: int, start: float) -> None:
        self.queue[job] = start
        self.made[job] = self.count
        insort(self.agenda, (start, self.count, job))
        self.count += 1
        self.wake_s = self.agenda[0][0]

    def _replan(self, now: float, opened: float) -> list[int]:
        profile, processors, estimate = self.profile, self.processors, self.estimate_s
        begun: list[int] = []
        moved_until = -1.0
        for job, old in list(self.queue.items()):
            need, length = processors[job], estimate[job]
            new = profile.earlier(now, old, need, length, opened)
            if new < old:
                profile.move(old, new, need, length)
                opened = max(opened, old + length)
                moved_until = max(moved_until, old + length)
                del self.agenda[bisect_left(self.agenda, (old, self.made[job], job))]
                if new == now:
                    begun.append(job)
                    del self.queue[job], self.made[job]
                    self.expires[job] = now + length
                else:
                    self._plan(job, new)
        self.wake_s = self.agenda[0][0] if self.agenda else NEVER
        self.open_until_s = moved_until
        return begun

    def state(self) -> dict[str, Any]:
        return {
            "times": self.profile.times,
            "free": self.profile.free,
            "queue": list(self.queue.items()),
            "agenda": self.agenda,
            "count": self.count,
            "expires": list(self.expires.items()),
            "open_until_s": self.open_until_s,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.profile.times, self.profile.free = list(state["times"]), list(state["free"])
        self.queue = dict(state["queue"])
        self.agenda = [(start, number, job) for start, number, job in state["agenda"]]
        self.made = {job: number for _, number, job in self.agenda}
        self.count = state["count"]
        self.expires = dict(state["expires"])
        self.open_until_s = state["open_until_s"]
        self.wake_s = self.agenda[0][0] if self.agenda else NEVER
