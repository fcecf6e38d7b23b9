"""Conservative backfilling on nodes of several memory sizes: every queued job has a reservation that others keep."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from jobsight_scheduler.memory.free_nodes import FreeNodes
from jobsight_scheduler.memory.nodes import Taken
from jobsight_scheduler.memory.waiting_jobs import WaitingJobs
from jobsight_scheduler.policies.base import QueueTooLongError

from .base import NEVER, MemoryPolicy, PolicyInput, Start

LONGEST_QUEUE = 20_000
"""Beyond this, reconsidering every reservation at every end takes days."""


class MemoryConservative(MemoryPolicy):
    """A job gets the earliest place when it is submitted. After each end, the waiting jobs are considered in order, and
    each moves to the earliest place that is open given all other reservations; so does a job that, by what was learned
    from the end, needs another class of nodes, even if its place is then later.

    An earlier place can only begin before ``_open_until_s``: the end of what was freed since all were last considered.
    """

    name = "conservative"

    def __init__(self, given: PolicyInput) -> None:
        super().__init__(given)
        self.plan = FreeNodes(given.nodes)
        self.waiting = WaitingJobs(given)
        self.reserved: dict[int, tuple[float, int, Taken]] = {}  # job -> start, number of the reservation, its nodes
        self._agenda: list[tuple[float, int, int]] = []  # (start, number of the reservation, job), sorted
        self._count = 0
        self._expires: dict[int, float] = {}
        self._open_until_s = -1.0

    def submitted(self, now: float, job: int) -> Sequence[Start]:
        self.plan.forget(now)
        needed = self.needed(job)
        start, taken = self.plan.earliest(now, needed, self.count[job], self.estimate_s[job])
        self.plan.take(start, start + self.estimate_s[job], taken)
        if start == now:
            self.nodes.take(taken)
            self._expires[job] = start + self.estimate_s[job]
            return ((job, needed, taken),)
        self.waiting.add(job, needed)
        self._reserve(job, start, taken)
        if len(self.reserved) > LONGEST_QUEUE:
            raise QueueTooLongError(
                f"{len(self.reserved):,} jobs wait at {now:.0f} s: conservative backfilling keeps a reservation for "
                "each and looks at all of them at each end; use easy, or lower the load"
            )
        return ()

    def ended(self, now: float, job: int, taken: Taken, *, returns: bool) -> Sequence[Start]:
        self.plan.forget(now)
        self.nodes.give(taken)
        expires = self._expires.pop(job)
        opened = self._open_until_s
        if expires > now:
            self.plan.give(now, expires, taken)
            opened = max(opened, expires)
        changed = set(self.waiting.learned(job))
        if returns:
            # At the head: others have to give up what it takes.
            return self._plan_anew(now, job)
        if (opened <= now and not changed) or not self.reserved:
            self._open_until_s = -1.0
            return ()
        return self._compress(now, opened, changed)

    def woken(self, now: float) -> Sequence[Start]:
        begun: list[Start] = []
        while self._agenda and self._agenda[0][0] <= now:
            begun.append(self._begin(self._agenda[0][2], now))
        self.wake_s = self._agenda[0][0] if self._agenda else NEVER
        return begun

    def _reserve(self, job: int, start: float, taken: Taken) -> None:
        self.reserved[job] = start, self._count, taken
        insort(self._agenda, (start, self._count, job))
        self._count += 1
        self.wake_s = self._agenda[0][0]

    def _release(self, job: int) -> tuple[float, Taken]:
        start, number, taken = self.reserved.pop(job)
        del self._agenda[bisect_left(self._agenda, (start, number, job))]
        return start, taken

    def _begin(self, job: int, now: float) -> Start:
        _, taken = self._release(job)
        self.nodes.take(taken)
        needed = self.waiting.class_of[job]
        self.waiting.remove(job)
        self._expires[job] = now + self.estimate_s[job]
        return job, needed, taken

    def _compress(self, now: float, opened: float, changed: set[int]) -> list[Start]:
        plan, count, estimate, class_of = self.plan, self.count, self.estimate_s, self.waiting.class_of
        begun: list[Start] = []
        moved_until = -1.0
        most = plan.most(now, opened)
        for job in list(self.waiting.ordered()):
            old, _number, taken = self.reserved[job]
            needed, length = class_of[job], estimate[job]
            if job not in changed and most[needed] < count[job]:
                continue
            plan.give(old, old + length, taken)
            new, chosen = plan.earliest(now, needed, count[job], length)
            if new >= old and job not in changed:
                plan.take(old, old + length, taken)
                continue
            plan.take(new, new + length, chosen)
            if new != old or chosen != taken:
                opened, moved_until = max(opened, old + length), max(moved_until, old + length)
            self._release(job)
            self._reserve(job, new, chosen)
            if new == now:
                begun.append(self._begin(job, now))
            most = plan.most(now, opened)
        self.wake_s = self._agenda[0][0] if self._agenda else NEVER
        self._open_until_s = moved_until
        return begun

    def _plan_anew(self, now: float, returned: int) -> list[Start]:
        """Gives the returned job the first place, and all others new ones, in order."""
        for job, (start, _, taken) in self.reserved.items():
            self.plan.give(start, start + self.estimate_s[job], taken)
        self.reserved.clear()
        self._agenda.clear()
        self.waiting.add(returned, self.needed(returned), returns=True)
        begun: list[Start] = []
        for job in list(self.waiting.ordered()):
            length = self.estimate_s[job]
            start, taken = self.plan.earliest(now, self.waiting.class_of[job], self.count[job], length)
            self.plan.take(start, start + length, taken)
            self._reserve(job, start, taken)
            if start == now:
                begun.append(self._begin(job, now))
        self.wake_s = self._agenda[0][0] if self._agenda else NEVER
        self._open_until_s = -1.0
        return begun
