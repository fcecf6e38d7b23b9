"""Robust line search: successive approximation for groups whose jobs differ (Yom-Tov and Aridor 2006, outlook)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState, similar
from jobsight_predictor.question import Question

FINER = (attrgetter("processors"), attrgetter("queue"), attrgetter("requested_time_s"))
"""Fields by which a group is split, one after the other, when its jobs turn out to differ."""

ALPHA, RISK = 2.0, 0.05
"""Divisor of a capacity that was enough, and share of a group's jobs that may fail for it to be tried again with less
than has failed."""


class _RobustGroup:
    """``place`` is the capacity that the next job gets; ``sufficed`` and ``failed`` count attempts by capacity."""

    __slots__ = ("failed", "finished", "parts", "place", "sufficed")

    def __init__(self, capacities: int, place: int) -> None:
        self.place = place
        self.sufficed = [0] * capacities
        self.failed = [0] * capacities
        self.finished = 0
        self.parts: dict[Any, _RobustGroup] | None = None  # by the next finer field, once the group is split


class RobustSearch(Estimator):
    """Lowers a group's capacity by ``ALPHA``, like successive approximation, until a job fails.

    A group is wide if one capacity was enough for some of its jobs and too little for others. It is split by the
    next of the ``FINER`` fields, and each part is searched from what never failed. A group that failed goes down one
    capacity at a time, the lowest possible alpha, and tries what failed again as long as its failures stay within
    ``RISK`` of its finished jobs: a rare large job does not hold the others up.
    """

    name = "robust-search"

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        self._groups: dict[Any, _RobustGroup] = {}

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        group = self._groups.get(similar(job))
        depth = 0
        while group is not None and group.parts is not None:
            part = group.parts.get(FINER[depth](job))
            if part is None:
                break
            group, depth = part, depth + 1
        if group is None or group.place >= len(self.capacities):
            return requested
        return min(requested, self.capacities[group.place])

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        highest = bisect_left(self.capacities, requested)
        if not 0 < highest < len(self.capacities):
            return  # it needs the smallest nodes at most, or no node has enough
        key = similar(job)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _RobustGroup(len(self.capacities), highest)
        depth = 0
        while group.parts is not None:
            group = group.parts.setdefault(FINER[depth](job), _RobustGroup(len(self.capacities), group.place))
            depth += 1
        if outcome.failed:
            place = bisect_left(self.capacities, outcome.given)
            group.failed[place] += 1
            group.place = max(group.place, min(place + 1, highest))
            if group.sufficed[place] and depth < len(FINER):
                group.parts = {}
            return
        group.finished += 1
        place = bisect_left(self.capacities, outcome.asked)
        group.sufficed[place] += 1
        if place <= group.place:
            group.place = self._below(group, place)

    def _below(self, group: _RobustGroup, place: int) -> int:
        """Choose the place to continue from a sufficient ``place``."""
        if not any(group.failed):
            return bisect_left(self.capacities, self.capacities[place] / ALPHA)
        # Less than what failed fails too. The one more is the failure that trying may cost.
        below = max(place - 1, 0)
        return below if sum(group.failed[below:]) + 1 <= RISK * group.finished else place
