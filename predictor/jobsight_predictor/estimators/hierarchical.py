"""Jobsight's estimator: the smallest capacity that is probably enough, by the job's group and by wider ones."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from jobsight_predictor.question import Question

from .base import Estimator, JobOutcome, SystemState

LEVELS: tuple[tuple[str, ...], ...] = (
    ("requested_memory_bytes",),
    ("user", "requested_memory_bytes"),
    ("user", "application", "requested_memory_bytes"),
    ("user", "application", "requested_memory_bytes", "processors", "requested_time_s"),
)
"""From general to specific."""

PRIOR = 1.0
"""Weight, in jobs, of a wider group's failures as evidence in a narrower one."""

UNKNOWN = 0.5
"""Probability that a capacity below the request fails if nothing at all is known."""

EXPLORE = 0.9
"""Probability of a failure up to which a group tries a capacity for the first time, with implicit feedback."""

RISK = 0.04
"""Largest probability of failure at which a capacity is chosen once the use of jobs is known."""

IMPLICIT_RISK = 0.2
"""The same while only success and failure are known: evidence is scarcer, so a larger risk pays off."""


_EXPLICIT = "explicit"


class Hierarchical(Estimator):
    """Counts for each group and capacity how many jobs it was enough for, and how many needed more.

    The probability that a job needs more is that of its widest group, adjusted by each narrower one according to its
    evidence (a beta-binomial posterior whose prior is the wider group's). A success says that all larger capacities
    would have been enough, a failure that all smaller ones would have failed; where the use is known, it says so of
    every capacity.

    What it has learned consists of named parts, a few of which concern a job: ``keys`` names them, so that a server
    need not hold the others in memory. Their values can be written as JSON.
    """

    name = "jobsight"

    def __init__(
        self,
        capacities: Sequence[float],
        risk: float = RISK,
        implicit_risk: float = IMPLICIT_RISK,
        levels: Sequence[Sequence[str]] = LEVELS,
        explore: float = EXPLORE,
    ) -> None:
        """``explore`` 0: with implicit feedback nothing is tried for the first time.

        Raises:
            ValueError: a risk is not between 0 and 1.
        """
        super().__init__(capacities)
        for value in (risk, implicit_risk):
            if not 0.0 < value < 1.0:
                raise ValueError(f"risk is {value}: give a probability above 0 and below 1")
        self._risk, self._implicit_risk, self._explore = risk, implicit_risk, explore
        self._is_explicit = False
        self._keys = [attrgetter(*fields) for fields in levels]
        # Of each group [n of capacity 0, short of capacity 0, n of capacity 1, ...]
        self._groups: list[dict[Any, list[float]]] = [{} for _ in levels]

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        highest = bisect_left(self.capacities, requested)
        if not highest:
            return requested
        probabilities = self._probabilities(job, highest)
        counts = self._groups[-1].get(self._keys[-1](job))
        risk = self._risk if self._is_explicit else self._implicit_risk
        for place, probability in enumerate(probabilities):
            # If use is not measured, only a trial shows whether less is enough: one in each group.
            is_untried = not self._is_explicit and not (counts and counts[2 * place])
            if probability <= (self._explore if is_untried else risk):
                return self.capacities[place]
        return requested

    def learn(self, job: Question, requested: float, outcome: JobOutcome) -> None:
        capacities = self.capacities
        if outcome.used is not None:
            self._is_explicit = True
            first = bisect_left(capacities, outcome.used)
            known = range(len(capacities))
        else:
            place = bisect_left(capacities, outcome.given)
            first = min(place + 1, len(capacities)) if outcome.failed else place
            known = range(first) if outcome.failed else range(first, len(capacities))
        for key, groups in zip(self._keys, self._groups, strict=True):
            counts = groups.setdefault(key(job), [0.0] * (2 * len(capacities)))
            for place in known:
                counts[2 * place] += 1.0
                counts[2 * place + 1] += place < first

    def keys(self, job: Question) -> list[str]:
        """The parts that concern this job."""
        return [_EXPLICIT, *(_name(level, key(job)) for level, key in enumerate(self._keys))]

    def state(self) -> dict[str, Any]:
        """Every part that it has."""
        parts: dict[str, Any] = {_EXPLICIT: self._is_explicit}
        for level, groups in enumerate(self._groups):
            parts |= {_name(level, key): counts for key, counts in groups.items()}
        return parts

    def load(self, parts: Mapping[str, Any]) -> None:
        """Take in parts that ``state`` of an estimator with the same arguments gave."""
        for name, part in parts.items():
            if name == _EXPLICIT:
                self._is_explicit = part
            else:
                level, key = json.loads(name)
                self._groups[level][tuple(key) if isinstance(key, list) else key] = list(part)

    def _probabilities(self, job: Question, count: int) -> list[float]:
        """Of each of the ``count`` smallest capacities, how likely it is that the job needs more."""
        probabilities = [UNKNOWN] * count
        for key, groups in zip(self._keys, self._groups, strict=True):
            counts = groups.get(key(job))
            if counts is None:
                continue
            for place in range(count):
                known, short = counts[2 * place], counts[2 * place + 1]
                if known:
                    probabilities[place] = (short + PRIOR * probabilities[place]) / (known + PRIOR)
        return probabilities


def _name(level: int, key: Any) -> str:
    return json.dumps((level, key), separators=(",", ":"))
