"""Other reservation rules, for comparison: learned from the finished jobs of one user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort

import numpy as np

QUANTILE = 0.9  # share; quantile of the user's jobs that Kubernetes' vertical autoscaler uses
PADDING = 1.15  # factor; its margin on top of that
MEMORY = 1000  # jobs; history of the first allocation
GROWN = 1.01  # factor; growth of the history after which the first allocation is recomputed


class Baseline(ABC):
    """Reserves for a user's next job, based on the use of the user's finished jobs."""

    @abstractmethod
    def learn(self, value: float, seconds: float) -> None:
        """Learn from a finished job."""

    @abstractmethod
    def reserve(self) -> float | None:
        """Return the reservation for the next job; None before anything was learned."""


class MaximumSeen(Baseline):
    """The largest use of any of the user's jobs."""

    def __init__(self) -> None:
        self._most: float | None = None

    def learn(self, value: float, seconds: float) -> None:
        self._most = value if self._most is None else max(self._most, value)

    def reserve(self) -> float | None:
        return self._most


class PaddedP90(Baseline):
    """The 90 % quantile of the use of the user's jobs, times 1.15, as in Kubernetes' vertical autoscaler."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def learn(self, value: float, seconds: float) -> None:
        insort(self._values, value)

    def reserve(self) -> float | None:
        values = self._values
        return values[min(len(values) - 1, int(QUANTILE * len(values)))] * PADDING if values else None


class FirstAllocation(Baseline):
    """The first allocation of Tovar et al. 2018: the past value that would have wasted least, with retries at the
    maximum.

    Minimises ``a sum(t) + a_max sum(t of jobs above a)`` over the last 1,000 jobs; recomputed whenever the history has
    grown by 1 %.
    """

    def __init__(self) -> None:
        self._jobs: list[tuple[float, float]] = []
        self._learned = 0
        self._known = 0
        self._best: float | None = None

    def learn(self, value: float, seconds: float) -> None:
        self._jobs.append((value, seconds))
        self._learned += 1
        if len(self._jobs) >= 2 * MEMORY:
            del self._jobs[:-MEMORY]

    def reserve(self) -> float | None:
        if self._jobs and (self._best is None or self._learned > GROWN * self._known):
            jobs = np.array(sorted(self._jobs[-MEMORY:]))
            values, seconds = jobs[:, 0], jobs[:, 1]
            above = seconds.sum() - np.cumsum(seconds)
            self._best = float(values[np.argmin(values * seconds.sum() + values[-1] * above)])
            self._known = self._learned
        return self._best


BASELINES: dict[str, type[Baseline]] = {
    "maximum": MaximumSeen,
    "p90-x-1.15": PaddedP90,
    "first-allocation": FirstAllocation,
}
"""The rules that learn; the user's own request is one more."""
