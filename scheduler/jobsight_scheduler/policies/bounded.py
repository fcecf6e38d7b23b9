"""Limits of users, and a policy that observes them on a machine whose processors are partly down at times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

from jobsight_scheduler.policies.base import NEVER, Policy
from jobsight_scheduler.policies.placement import Placement
from jobsight_scheduler.policies.processors import Processors


class UserLimits(Placement[Any]):
    """A mixin: a job of a user at the limit finds no place. ``user`` is by job, ``most`` by user."""

    def limit(self, user: Sequence[int], most: Sequence[float]) -> None:
        """Limit users from now on, when nothing runs."""
        self.user, self.most, self.has = user, most, [0] * len(most)

    def bars(self, job: int) -> bool:
        """Return whether the job would exceed its user's limit now."""
        user = self.user[job]
        return self.has[user] + self.processors[job] > self.most[user]

    def find(self, job: int) -> Any:
        return None if self.bars(job) else super().find(job)  # type: ignore[safe-super]

    find_first, start, end, fill = find, Placement.start, Placement.end, Placement.fill  # not those made faster

    def take(self, job: int, where: Any) -> None:
        super().take(job, where)  # type: ignore[safe-super]
        self.has[self.user[job]] += self.processors[job]

    def give(self, job: int) -> None:
        super().give(job)  # type: ignore[safe-super]
        self.has[self.user[job]] -= self.processors[job]


class LimitedProcessors(UserLimits, Processors):
    """A machine of counted processors."""


class Bounded(Policy):
    """``inner``, whose queue has ranks. A job barred by its user's limit leaves the queue until the limit allows it, so
    it does not hold up the jobs of others.

    ``down``: times, and the processors that cannot be used from then on; jobs that run go on.
    """

    name: ClassVar[str] = "bounded"

    def __init__(self, inner: Policy, down: Sequence[tuple[float, int]]) -> None:
        self.inner = inner
        self.processors, self.estimate_s, self.machine = inner.processors, inner.estimate_s, inner.machine
        self.capacity = inner.capacity
        self._limits = inner.machine if isinstance(inner.machine, UserLimits) else None
        self._steps, self._down = list(reversed(down)), 0
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)  # by user, in the queue of ``inner``
        self._barred: defaultdict[int, list[int]] = defaultdict(list)
        self.wake_s = self._next_wake()

    def submitted(self, now: float, job: int) -> Sequence[int]:
        return self._settled(now, self._enter(now, job))

    def ended(self, now: float, job: int) -> Sequence[int]:
        begun = self._settled(now, self.inner.ended(now, job))
        if self._limits:
            for other in self._barred.pop(self._limits.user[job], ()):
                begun += self._settled(now, self._enter(now, other))
        return begun

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

    def _enter(self, now: float, job: int) -> Sequence[int]:
        if self._limits:
            barred = self._limits.bars(job)
            (self._barred if barred else self._waiting)[self._limits.user[job]].append(job)
            if barred:
                return ()
        return self.inner.submitted(now, job)

    def _settled(self, now: float, begun: Sequence[int]) -> list[int]:
        """Return all jobs that begin. After each start, withdraw the jobs of users at their limit, and ask again."""
        settled, news, limits = list(begun), begun, self._limits
        while news and limits:
            for job in news:
                self._waiting[limits.user[job]].remove(job)
            users = {limits.user[job] for job in news}
            out = [job for user in users for job in self._waiting[user] if limits.bars(job)]
            for job in out:
                self._waiting[limits.user[job]].remove(job)
                self._barred[limits.user[job]].append(job)
                self.inner.withdraw(job)
            news = self.inner.reconsider(now) if out else ()
            settled += news
        self.wake_s = self._next_wake()
        return settled

    def _next_wake(self) -> float:
        return min(self.inner.wake_s, self._steps[-1][0] if self._steps else NEVER)
