"""Jobsight's own estimator: the smallest capacity that is probably enough for the job's group and wider groups."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState
from jobsight_predictor.question import Question

LEVELS: tuple[tuple[str, ...], ...] = (
    ("requested_memory_bytes",),
    ("user", "requested_memory_bytes"),
    ("user", "application", "requested_memory_bytes"),
    ("user", "application", "requested_memory_bytes", "processors", "requested_time_s"),
)
"""From general to specific."""

PRIOR = 1.0
"""Jobs; weight of a wider group's failure rate as the prior of a narrower group."""

UNKNOWN = 0.5
"""Prior probability that a capacity below the request fails."""

EXPLORE = 0.9
"""Probability of failure up to which a group first tries a capacity, with implicit feedback."""

RISK = 0.04
"""Largest probability of failure at which a capacity is chosen once the use of jobs is known."""

IMPLICIT_RISK = 0.2
"""The same with implicit feedback: evidence is scarcer, so a larger risk pays off."""


class ByGroup(Estimator):
    """Counts, for each group and capacity, the jobs with enough and the jobs that needed more.

    The probability that a job needs more is a beta-binomial posterior in its group, whose prior is the posterior of the
    next wider group. A success counts for all larger capacities too, a failure for all smaller ones; a known use
    decides every capacity.
    """

    name = "jobsight"

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        self._is_explicit = False
        self._keys = [attrgetter(*fields) for fields in LEVELS]
        # For each group [n of capacity 0, failed at capacity 0, n of capacity 1, ...]
        self._groups: list[dict[Any, list[float]]] = [{} for _ in LEVELS]

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        highest = bisect_left(self.capacities, requested)
        if not highest:
            return requested
        probabilities = self._probabilities(job, highest)
        counts = self._groups[-1].get(self._keys[-1](job))
        risk = RISK if self._is_explicit else IMPLICIT_RISK
        for place, probability in enumerate(probabilities):
            # Without measured use, only a trial shows whether less is enough: one in each group.
            is_untried = not self._is_explicit and not (counts and counts[2 * place])
            if probability <= (EXPLORE if is_untried else risk):
                return self.capacities[place]
        return requested

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
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

    def _probabilities(self, job: Question, count: int) -> list[float]:
        """Estimate the probability that the job needs more than each of the ``count`` smallest capacities."""
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
