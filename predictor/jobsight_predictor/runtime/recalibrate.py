"""Corrects predicted probabilities of failure by how often jobs have failed, on line.

Failures are taken to come ``m`` times as often as predicted. What is known of ``m`` is a gamma distribution around 1,
worth ``PRIOR`` predicted failures, updated by what failed and by what was predicted to (Poisson): its mean multiplies
the odds. So one failure is worth one failure, whatever was predicted of that job. Evidence fades with time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

PRIOR = 1.5
"""Failures; as many predicted ones as the belief that predictions are right is worth."""

HALF_LIFE_H = 30 * 24.0
"""Hours after which a job counts half."""

EXPLORED = 20
"""Of so many jobs that only the correction refuses, one is accepted."""


Correct = Callable[[float], float]
"""From a predicted probability to the corrected one, both 0..1."""


class Recalibration:
    """Learns from (predicted probability of failure, failed or not, when) what such a prediction is worth."""

    def __init__(self) -> None:
        self._predicted = 0.0
        self._failed = 0.0
        self._at_h = 0.0
        self._refused = 0
        self.jobs = 0

    def learn(self, predicted: float, failed: bool, at_h: float) -> None:
        """Take in a job that was accepted at ``predicted`` probability of failure, before any correction.

        Raises:
            ValueError: ``predicted`` is not within 0..1.
        """
        if not 0.0 <= predicted <= 1.0:
            raise ValueError(f"predicted probability of failure {predicted}: give a number from 0 to 1")
        left = self._left(at_h)
        self._predicted = left * self._predicted + predicted
        self._failed = left * self._failed + failed
        self._at_h = max(self._at_h, at_h)
        self.jobs += 1

    def explores(self) -> bool:
        """Whether the next of the jobs that only the correction refuses is accepted: what is refused teaches nothing,
        so it would never learn that jobs have become more reliable again."""
        self._refused += 1
        return self._refused % EXPLORED == 0

    def factor(self, at_h: float) -> float:
        """By how much the odds of failing are multiplied at this time."""
        left = self._left(at_h)
        return (PRIOR + left * self._failed) / (PRIOR + left * self._predicted)

    def as_of(self, at_h: float) -> Correct:
        """The correction at this time: the probability of failure that a predicted one stands for, ascending in it."""
        factor = self.factor(at_h)
        return lambda predicted: min(1.0, factor * predicted / (1.0 + (factor - 1.0) * predicted))

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        known = {"predicted": self._predicted, "failed": self._failed, "at_h": self._at_h}
        return known | {"jobs": self.jobs, "refused": self._refused}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], at_h: float | None = None) -> Self:
        """The one whose ``state()`` this was; with ``at_h``, as if it had all been learned then."""
        restored = cls()
        restored._predicted, restored._failed = float(state["predicted"]), float(state["failed"])
        restored._at_h = float(state["at_h"]) if at_h is None else at_h
        restored.jobs, restored._refused = int(state["jobs"]), int(state.get("refused", 0))
        return restored

    def _left(self, at_h: float) -> float:
        """The share of the evidence that is left."""
        return float(0.5 ** (max(0.0, at_h - self._at_h) / HALF_LIFE_H))
