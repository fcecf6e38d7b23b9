"""Machines on which each user holds only so many processors at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_scheduler.policies.placement import Placement
from jobsight_scheduler.policies.processors import Processors


class UserLimits(Placement[Any]):
    """A mixin: a job of a user at the limit finds no place. ``user`` is by job, ``most`` by user."""

    def limit(self, user: Sequence[int], most: Sequence[float]) -> None:
        """Limit users from now on, when nothing runs."""
        self.user, self.most, self.has = user, most, [0] * len(most)

    def find(self, job: int) -> Any:
        user = self.user[job]
        return None if self.has[user] + self.processors[job] > self.most[user] else super().find(job)  # type: ignore[safe-super]

    find_first, start, end, fill = find, Placement.start, Placement.end, Placement.fill  # not those made faster

    def take(self, job: int, where: Any) -> None:
        super().take(job, where)  # type: ignore[safe-super]
        self.has[self.user[job]] += self.processors[job]

    def give(self, job: int) -> None:
        super().give(job)  # type: ignore[safe-super]
        self.has[self.user[job]] -= self.processors[job]


class LimitedProcessors(UserLimits, Processors):
    """A machine of counted processors."""
