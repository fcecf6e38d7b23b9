"""What running jobs have used so far, as evidence for others: it votes beside the groups of ended jobs.

Nothing else learns from it, so a job's end replaces it exactly. How much it counts is learned from what its votes have
been worth, as for every other candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_predictor.question import GroupKey

from .group import USER, JobKeys

RUNNING = ("running-last", "running-median")
"""What running jobs forecast: the use of the one measured last, and the median of them."""

LEVELS = ("most specific group", "second group", "application", "user")
"""The groups of a job whose running jobs have a vote."""

MEASURED_LAST = 16  # jobs; of a group, those whose use counts

Slots = list[GroupKey | None]


def slots(keys: JobKeys) -> Slots:
    """The group at each of ``LEVELS`` whose running jobs vote on this job; None where it is an earlier one or unknown.

    Of a job of which only the user is known there are none: the answer to that question is stored when a job has ended.
    """
    (_, first), *others = keys.groups
    if not others or first[0] in (0, USER):
        return [None] * len(LEVELS)
    by_user: GroupKey | None = (USER, keys.kind[1][:1]) if keys.kind[0] & USER else None
    found: Slots = []
    for key in (first, others[0][1], keys.kind, by_user):
        found.append(key if key is not None and key[0] and key not in found else None)
    return found


class Underway:
    """The use so far of running jobs, by group and by the number of the job."""

    def __init__(self) -> None:
        self._of: dict[GroupKey, dict[int, float]] = {}
        self._until: dict[GroupKey, int] = {}
        self.changed: set[GroupKey] = set()
        self.until = 0
        """The last period in which what is noted now counts."""

    def __bool__(self) -> bool:
        """Whether anything was seen of any job."""
        return bool(self._of)

    def see(self, keys: Slots, job: int, value: float) -> None:
        """A running job of these groups has used ``value`` so far; replaces what was known of it."""
        for key in keys:
            if key is None:
                continue
            of_group = self._of.setdefault(key, {})
            of_group.pop(job, None)
            of_group[job] = value
            if len(of_group) > MEASURED_LAST:
                del of_group[next(iter(of_group))]
            self._until[key] = self.until
            self.changed.add(key)

    def end(self, keys: Slots, job: int) -> bool:
        """The job runs no more; returns whether anything was known of it."""
        known = False
        for key in keys:
            if key is not None and self._of.get(key, {}).pop(job, None) is not None:
                known = True
                self.changed.add(key)
        return known

    def values(self, key: GroupKey) -> list[float]:
        """What the running jobs of a group have used so far, the one measured last at the end."""
        return list(self._of.get(key, {}).values())

    def forecasts(self, keys: Slots) -> list[float | None]:
        """The forecast of each of ``RUNNING`` by each group, (len(LEVELS) * len(RUNNING),); None: it has none."""
        found: list[float | None] = []
        for key in keys:
            of_group = None if key is None else self._of.get(key)
            if of_group:
                values = list(of_group.values())
                found += [values[-1], sorted(values)[len(values) // 2]]
            else:
                found += [None, None]
        return found

    def drop_before(self, period: int) -> None:
        """Forget groups that count until an earlier period."""
        for key in [key for key, until in self._until.items() if until < period]:
            del self._of[key], self._until[key]
            self.changed.discard(key)

    def all_changed(self) -> None:
        """Mark all groups as changed."""
        self.changed.update(self._of)

    def state(self, key: GroupKey) -> tuple[list[list[Any]], int]:
        """The whole state of a group, as JSON values, and the last period in which it counts."""
        return [[job, value] for job, value in self._of[key].items()], self._until[key]

    def load(self, key: GroupKey, state: Sequence[tuple[int, float]], until: int) -> None:
        """Take over ``state()`` of a group."""
        self._of[key] = dict(state)
        self._until[key] = until
