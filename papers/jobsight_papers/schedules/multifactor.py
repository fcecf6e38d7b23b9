"""Slurm's multifactor priority, with fair share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite, log
from typing import ClassVar

import numpy as np

from jobsight_papers.schedules.easy_by_key import EasyByKey
from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.policies.base import JobRequests


class FairShare:
    """Processor seconds of each user, half as important after ``half_life_s``; users have equal shares.

    A running job is charged as time passes. Users count from their first submission on. The factor of a user with the
    part ``f`` of all usage among ``n`` users is ``2^(-n f)``: 1 without usage, 1/2 with exactly the user's share, as in
    Slurm's classic fair-share algorithm.
    """

    def __init__(self, half_life_s: float) -> None:
        self._rate = log(2.0) / half_life_s
        self._place: dict[str | None, int] = {}
        self._table: Floats = np.zeros((3, 0))  # by user: used as of ``since``, since, processors of running jobs

    def place(self, now: float, user: str | None) -> int:
        """Return the position of ``user`` in ``factors``."""
        if user not in self._place:
            self._place[user] = len(self._place)
            self._table = np.concatenate([self._table, [[0.0], [now], [0.0]]], axis=1)
        return self._place[user]

    def change(self, now: float, user: str | None, processors: int) -> None:
        """Add ``processors`` to those of the user's running jobs from ``now`` on; below 0 removes them."""
        place = self.place(now, user)
        used = self._at(now, self._table[:, place : place + 1])[0]
        self._table[:, place] = used, now, self._table[2, place] + processors

    def usage(self, now: float) -> Floats:
        """Processor seconds of each user, faded, shape (users,)."""
        return self._at(now, self._table)

    def factors(self, now: float) -> Floats:
        """Return the fair-share factor of each user, 0..1, shape (users,)."""
        used = self.usage(now)
        total = used.sum()
        if not total > 0.0:
            return np.ones(len(used))
        return np.asarray(2.0 ** (-len(used) * used / total))

    def _at(self, now: float, table: Floats) -> Floats:
        """``dU/dt = running - rate U``, solved."""
        used, since, running = table
        faded = np.expm1(-self._rate * (now - since))
        return np.asarray(used * (1.0 + faded) - running * faded / self._rate)


DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class PriorityWeights:
    """Weights of the factors, each 0..1: ``age`` of the time waited, up to ``longest_age_days``; ``size`` of the share
    of the machine requested (below 0: small jobs first); ``fair_share`` of the user's recent usage, which halves in
    ``half_life_days``.

    The defaults are those of the example in Slurm's documentation of the multifactor plugin.

    Raises:
        ValueError: a weight that is not a number, or a time that is not above 0.
    """

    age: float = 1_000.0
    size: float = 1_000.0
    fair_share: float = 10_000.0
    longest_age_days: float = 7.0
    half_life_days: float = 7.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isfinite(value) or abs(value) > 1e12:
                raise ValueError(f"{field.name.replace('_', '-')} of {value}: give a number of at most 1e12")
            if field.name.endswith("_days") and not value >= 1e-6:
                raise ValueError(f"{field.name.replace('_', '-')} of {value}: give a number of days above 0, such as 7")


def priority_weights(given: Mapping[str, float]) -> PriorityWeights:
    """Return the default weights with those ``given``, by names such as ``fair-share``.

    Raises:
        ValueError: an unknown name, or an impossible value.
    """
    names = {field.name.replace("_", "-"): field.name for field in fields(PriorityWeights)}
    for name in given:
        if name not in names:
            raise ValueError(f"unknown weight {name!r}; choose from {', '.join(names)}")
    return PriorityWeights(**{names[name]: value for name, value in given.items()})


class Multifactor(EasyByKey):
    """The highest ``age * min(1, waited / longest age) + size * processors / capacity + fair share * factor`` first.

    Factors are computed at the beginning of the pass. Jobs without a known user share one.
    """

    name: ClassVar[str] = "multifactor"

    def __init__(self, requests: JobRequests, weights: PriorityWeights | None = None) -> None:
        super().__init__(requests)
        self.weights = weights or PriorityWeights()
        self.users = [question.user for question in requests.questions] or [None] * len(self.need)
        self.usage = FairShare(self.weights.half_life_days * DAY_S)
        self.user_of: Integers = np.zeros(len(self.need), dtype=np.int64)

    def keys(self, now: float, jobs: Integers) -> Floats:
        weights = self.weights
        age = np.minimum(1.0, (now - self.submit_s[jobs]) / (weights.longest_age_days * DAY_S))
        shares = self.usage.factors(now)[self.user_of[jobs]]
        size = self.need[jobs] / self.capacity
        return -(weights.age * age + weights.size * size + weights.fair_share * shares)

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.user_of[job] = self.usage.place(now, self.users[job])
        return super().submitted(now, job)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.usage.change(now, self.users[job], -self.processors[job])
        return super().ended(now, job)

    def _pass(self, now: float) -> list[int]:
        begun = super()._pass(now)
        for job in begun:
            self.usage.change(now, self.users[job], self.processors[job])
        return begun
