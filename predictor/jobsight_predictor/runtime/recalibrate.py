"""Corrects predicted probabilities of failure by how often jobs have failed, on line.

The odds of failing become ``exp(a) * odds ** b``. The posterior of (a, b) is kept on a grid, from a prior around no
change; evidence fades, and the answer is that of the mean of a and b. A probability of 0 stays 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any, Self

import numpy as np

from jobsight_predictor.forecasters import Floats

SHIFT_SD, SLOPE_SD = 1.5, 0.4
"""Standard deviations of the prior: odds may be wrong by a factor of four or so."""

FADE = 0.998
"""Share of the evidence of a job that is left one job later: half after some 350 jobs."""

_SMALLEST = 1e-6
_SHIFTS, _SLOPES = np.meshgrid(np.linspace(-5.0, 5.0, 41), np.linspace(0.2, 1.8, 17), indexing="ij")


class Recalibration:
    """Learns from (predicted probability of failure, failed or not) what such a prediction is worth."""

    def __init__(self, fade: float = FADE) -> None:
        if not 0.0 < fade <= 1.0:
            raise ValueError(f"fade {fade}: give a share above 0, at most 1")
        self._fade = fade
        self._prior: Floats = -0.5 * ((_SHIFTS / SHIFT_SD) ** 2 + ((_SLOPES - 1.0) / SLOPE_SD) ** 2)
        self._likelihood: Floats = np.zeros_like(self._prior)
        self._shift, self._slope = 0.0, 1.0
        self.jobs = 0

    def learn(self, predicted: float, failed: bool) -> None:
        """Take in a job that was accepted at ``predicted`` probability of failure, before any correction.

        Raises:
            ValueError: ``predicted`` is not within 0..1.
        """
        if not 0.0 <= predicted <= 1.0:
            raise ValueError(f"predicted probability of failure {predicted}: give a number from 0 to 1")
        corrected = _corrected(predicted)
        self._likelihood = self._fade * self._likelihood + np.log(corrected if failed else 1.0 - corrected)
        self._find()
        self.jobs += 1

    def corrected(self, predicted: float) -> float:
        """The probability of failure that a prediction stands for, 0..1; ascending in ``predicted``."""
        if predicted <= 0.0:
            return 0.0
        return 1.0 / (1.0 + exp(-(self._shift + self._slope * _log_odds(predicted))))

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {"likelihood": self._likelihood.tolist(), "jobs": self.jobs, "fade": self._fade}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restores the one whose ``state()`` this was.

        Raises:
            ValueError: it is another shape.
        """
        restored = cls(float(state["fade"]))
        likelihood = np.array(state["likelihood"], dtype=np.float64)
        if likelihood.shape != restored._prior.shape:
            raise ValueError(f"state of shape {likelihood.shape}; expected {restored._prior.shape}")
        restored._likelihood = likelihood
        restored._find()
        restored.jobs = int(state["jobs"])
        return restored

    def _find(self) -> None:
        log_weights = self._prior + self._likelihood
        weights = np.exp(log_weights - log_weights.max())
        total = float(weights.sum())
        self._shift = float((weights * _SHIFTS).sum()) / total
        self._slope = float((weights * _SLOPES).sum()) / total


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, _SMALLEST), 1.0 - _SMALLEST)
    return log(bounded / (1.0 - bounded))


def _corrected(predicted: float) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-(_SHIFTS + _SLOPES * _log_odds(predicted)))))
