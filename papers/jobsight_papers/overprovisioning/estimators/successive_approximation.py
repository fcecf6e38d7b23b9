"""Successive approximation: lower a group's capacity until a job fails (Yom-Tov and Aridor 2006, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState, similar
from jobsight_predictor.question import Question


class _Group:
    __slots__ = ("alpha", "estimate", "failed", "good")

    def __init__(self, requested: float, alpha: float) -> None:
        self.estimate = self.good = requested
        self.failed = 0.0  # the largest insufficient capacity
        self.alpha = alpha


class SuccessiveApproximation(Estimator):
    """Divides the last sufficient size by ``alpha`` for the group's next job; after a failure, restores it and divides
    by ``alpha beta``.

    With ``beta`` 0 a group's size is final after its first failure. As published, a group of different jobs can fail
    for ever, and a late success can undo progress. Here a failed size is never estimated again for the group, and a
    success with more than the estimate changes nothing.
    """

    name = "successive-approximation"

    def __init__(self, capacities: Sequence[float], alpha: float = 2.0, beta: float = 0.0) -> None:
        """Raises:
        ValueError: ``alpha`` is not above 1, ``beta`` not in [0, 1), or there are no capacities.
        """
        super().__init__(capacities)
        if not alpha > 1.0:
            raise ValueError(f"alpha is {alpha}: it divides the estimate, so it must be above 1")
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"beta is {beta}: it must be at least 0 and below 1")
        self._alpha, self._beta = alpha, beta
        self._groups: dict[Any, _Group] = {}

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        group = self._groups.get(similar(job))
        return requested if group is None else min(requested, group.estimate)

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        key = similar(job)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(requested, self._alpha)
        if outcome.failed:
            group.failed = max(group.failed, outcome.given)
            group.alpha = max(1.0, self._beta * group.alpha)
            group.good = max(group.good, self._above(group.failed))
            group.estimate = group.good
        elif outcome.asked <= self.rounded(group.estimate) and outcome.asked > group.failed:
            sufficed = self.rounded(outcome.asked)
            group.good = outcome.asked
            lower = sufficed / group.alpha
            group.estimate = lower if self.rounded(lower) > group.failed else group.good

    def _above(self, failed: float) -> float:
        """Return the smallest capacity above ``failed``."""
        return next((capacity for capacity in self.capacities if capacity > failed), self.capacities[-1])
