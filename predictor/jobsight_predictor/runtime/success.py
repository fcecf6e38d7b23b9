"""Probability of success of a job in a gap: PoS = P_available * P_executable * P_success, with node failures and
recalibration by observed failures (Birkenheuer, Brinkmann and Karl 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp, log
from typing import Any, Self

import numpy as np

from jobsight_predictor.arrays import Floats
from jobsight_predictor.runtime.accuracy import BINS, GRID, RuntimeAccuracy

PUBLISHED_FAILURES_PER_H = -log(0.95) / 744.0
"""5 % of nodes fail within a month of 31 days."""

PUBLISHED_REPAIRS_PER_H = 1.0 / 12.0


@dataclass(frozen=True, slots=True)
class MachineFailure:
    """Failures and repairs per node and hour; the latter above 0."""

    failures_per_h: float = PUBLISHED_FAILURES_PER_H
    repairs_per_h: float = PUBLISHED_REPAIRS_PER_H

    def available(self, nodes: int) -> float:
        """Return P_available, the probability that ``nodes`` nodes are all up: (1 + lambda / mu) ** -nodes."""
        return float((1.0 + self.failures_per_h / self.repairs_per_h) ** -float(nodes))

    def survives(self, nodes: int, hours: float) -> float:
        """Return P_success as published: the probability that no node fails in the requested ``hours``."""
        return exp(-self.failures_per_h * hours * nodes)

    def survives_run(self, nodes: int, requested_h: float, accuracy: RuntimeAccuracy) -> float:
        """Return P_success as an expectation over run times, instead of over the requested time.

        Within each step of the grid the run time counts as uniform.
        """
        rate = self.failures_per_h * requested_h * nodes
        step = rate / (len(GRID) - 1)
        ends = np.exp(-rate * GRID[:-1])
        share = -np.expm1(-step) / step if step > 1e-12 else 1.0
        return float(np.diff(accuracy.cdf) @ ends * share)


SCENARIOS = 256

_QUANTILES = (np.arange(SCENARIOS) + 0.5) / SCENARIOS


@lru_cache(maxsize=10_000)
def scenario_order(job: int) -> Floats:
    """Shuffle a job's quantiles, shape (SCENARIOS,), read-only; the same for the same number."""
    order = np.random.default_rng([SCENARIOS, job & (2**63 - 1)]).permutation(_QUANTILES)
    order.setflags(write=False)
    return order


def ends_of_running(
    order: Floats, started_h: float, requested_h: float, end_h: float, now_h: float, accuracy: RuntimeAccuracy
) -> Floats:
    """Return the ends of a job that still runs at ``now_h``, shape (SCENARIOS,)."""
    rest = accuracy.after((now_h - started_h) / requested_h)
    return np.minimum(started_h + requested_h * rest.quantiles(order), end_h)


def ends_of_waiting(starts_h: Floats | float, runs_h: Floats, end_h: float) -> Floats:
    """Return the ends of a job with starts ``starts_h`` and run times ``runs_h``, shape (SCENARIOS,)."""
    ends = starts_h + runs_h
    return np.minimum(ends, end_h, out=ends)


def executable_by_scenarios(
    starts_h: Floats | float, window_end_h: float, requested_h: float, accuracy: RuntimeAccuracy
) -> float:
    """Return P_executable, the mean over the starts of G((w - start) / requested), with G at the nearest 1 %."""
    if isinstance(starts_h, float):
        return float(accuracy.within((window_end_h - starts_h) / requested_h))
    percent = starts_h * (-BINS / requested_h)
    percent += window_end_h * (BINS / requested_h) + 0.5  # truncation rounds to the nearest
    return float(accuracy.cdf.take(percent.astype(np.intp), mode="clip").sum()) / len(percent)


PRIOR = 1.5
"""Failures; weight of the prior that predictions are right."""

HALF_LIFE_H = 30 * 24.0
"""Hours after which a job's weight has halved."""

EXPLORED = 20
"""One in so many jobs refused only by the correction is accepted."""


Correct = Callable[[float], float]
"""Maps a predicted probability to the corrected one, both 0..1."""


class Recalibration:
    """Recalibrates predicted probabilities of failure by the observed failures."""

    def __init__(self) -> None:
        self._predicted = 0.0
        self._failed = 0.0
        self._at_h = 0.0
        self._refused = 0

    def learn(self, predicted: float, failed: bool, at_h: float) -> None:
        """Learn from a job that was accepted at the uncorrected probability ``predicted`` of failure, 0..1."""
        left = self._left(at_h)
        self._predicted = left * self._predicted + predicted
        self._failed = left * self._failed + failed
        self._at_h = max(self._at_h, at_h)

    def explores(self) -> bool:
        """Return whether to accept the next job that only the correction refuses. Refused jobs have no outcome, so
        without these it would never learn that jobs have become more reliable."""
        self._refused += 1
        return self._refused % EXPLORED == 0

    def factor(self, at_h: float) -> float:
        """Return the factor on the odds of failure at this time."""
        left = self._left(at_h)
        return (PRIOR + left * self._failed) / (PRIOR + left * self._predicted)

    def as_of(self, at_h: float) -> Correct:
        """Return the correction at this time, which increases with the predicted probability of failure."""
        factor = self.factor(at_h)
        return lambda predicted: min(1.0, factor * predicted / (1.0 + (factor - 1.0) * predicted))

    def state(self) -> dict[str, Any]:
        """Return the whole state as JSON values."""
        return {"predicted": self._predicted, "failed": self._failed, "at_h": self._at_h, "refused": self._refused}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], at_h: float | None = None) -> Self:
        """Restore from ``state()``; with ``at_h``, as if everything had been learned then."""
        restored = cls()
        restored._predicted, restored._failed = float(state["predicted"]), float(state["failed"])
        restored._at_h = float(state["at_h"]) if at_h is None else at_h
        restored._refused = int(state.get("refused", 0))
        return restored

    def _left(self, at_h: float) -> float:
        """Return the remaining weight of the evidence."""
        return float(0.5 ** (max(0.0, at_h - self._at_h) / HALF_LIFE_H))


@dataclass(frozen=True, slots=True)
class SuccessProbability:
    """Three factors, each 0..1: nodes are up at the start, the job ends within the gap, no node fails meanwhile."""

    available: float
    executable: float
    survives: float

    @property
    def pos(self) -> float:
        """Probability of success."""
        return self.available * self.executable * self.survives

    @property
    def pof(self) -> float:
        """Probability of failure, 1 - PoS."""
        return 1.0 - self.pos


def machine_factors(
    machine: MachineFailure, nodes: int, requested_h: float, accuracy: RuntimeAccuracy | None = None
) -> tuple[float, float]:
    """Return P_available and P_success; the latter over the requested time as published, or, with ``accuracy``, as an
    expectation over run times."""
    available = machine.available(nodes)
    if accuracy is None:
        return available, machine.survives(nodes, requested_h)
    return available, machine.survives_run(nodes, requested_h, accuracy)
