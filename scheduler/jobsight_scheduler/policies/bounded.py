"""A policy on a machine of which some processors are down at times, and of which each user may hold only so many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

from jobsight_scheduler.policies.base import NEVER, Policy


class Bounded(Policy):
    """``inner``, whose queue has ranks, within limits. Jobs of users at their limit are not in its queue meanwhile.

    ``most``: by user, the processors at once; without it there are no limits. ``user`` is by job. ``down``: times, and
    the processors that cannot be used from then on; jobs that run go on.
    """

    name: ClassVar[str] = "bounded"

    def __init__(
        self, inner: Policy, user: Sequence[int], most: Sequence[float], down: Sequence[tuple[float, int]]
    ) -> None:
        self.inner, self.user, self.most = inner, user, most
        self.processors, self.estimate_s, self.machine = inner.processors, inner.estimate_s, inner.machine
        self.capacity = inner.capacity
        self._steps, self._down = list(reversed(down)), 0
        self._has = [0] * len(most)
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)  # by user, in the queue of ``inner``
        self._barred: defaultdict[int, list[int]] = defaultdict(list)
        self.wake_s = self._next_wake()

    def submitted(self, now: float, job: int) -> Sequence[int]:
        return self._settled(now, self._enter(now, job))

    def ended(self, now: float, job: int) -> Sequence[int]:
        begun = list(self.inner.ended(now, job))
        if self.most:
            user = self.user[job]
            self._has[user] -= self.processors[job]
            begun = list(self._settled(now, begun))
            barred, self._barred[user] = self._barred[user], []
            for other in barred:
                begun += self._settled(now, self._enter(now, other))
        return self._settled(now, begun, counted=True)

    def woken(self, now: float) -> Sequence[int]:
        begun: list[int] = []
        if self.inner.wake_s <= now:
            self.inner.ending = self.ending
            begun += self.inner.woken(now)
        if self._steps and self._steps[-1][0] <= now:
            down = self._steps.pop()[1]
            self.machine.free -= down - self._down
            self._down = down
            begun += self.inner.reconsider(now)
        return self._settled(now, begun)

    def _is_barred(self, job: int) -> bool:
        user = self.user[job]
        return self._has[user] + self.processors[job] > self.most[user]

    def _enter(self, now: float, job: int) -> Sequence[int]:
        if self.most:
            if self._is_barred(job):
                self._barred[self.user[job]].append(job)
                return ()
            self._waiting[self.user[job]].append(job)
        return self.inner.submitted(now, job)

    def _settled(self, now: float, begun: Sequence[int], counted: bool = False) -> Sequence[int]:
        """Take jobs out of the queue whose users have reached their limits by those that begin, until none is left."""
        settled = list(begun)
        news = [] if counted or not self.most else settled
        while news:
            users = {self.user[job] for job in news}
            for job in news:
                self._has[self.user[job]] += self.processors[job]
                self._waiting[self.user[job]].remove(job)
            out = [job for user in users for job in self._waiting[user] if self._is_barred(job)]
            for job in out:
                self._waiting[self.user[job]].remove(job)
                self._barred[self.user[job]].append(job)
                self.inner.withdraw(job)
            news = list(self.inner.reconsider(now)) if out else []
            settled = [*settled, *news]
        self.wake_s = self._next_wake()
        return settled

    def _next_wake(self) -> float:
        return min(self.inner.wake_s, self._steps[-1][0] if self._steps else NEVER)
