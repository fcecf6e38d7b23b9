"""Risk that a job's nodes are down when it starts, or fail while it runs.

Nodes fail and are repaired independently, each at a constant rate. Source: Birkenheuer, Brinkmann and Karl (2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np

from .accuracy import GRID, RuntimeAccuracy

PUBLISHED_FAILURES_PER_H = -log(0.95) / 744.0
"""5 % of nodes fail within a month of 31 days."""

PUBLISHED_REPAIRS_PER_H = 1.0 / 12.0


@dataclass(frozen=True, slots=True)
class MachineFailure:
    """Failures and repairs per node and hour.

    Raises:
        ValueError: the failure rate is not 0 or more, or the repair rate is not positive, or one is not finite.
    """

    failures_per_h: float = PUBLISHED_FAILURES_PER_H
    repairs_per_h: float = PUBLISHED_REPAIRS_PER_H

    def __post_init__(self) -> None:
        if not 0.0 <= self.failures_per_h < float("inf"):
            raise ValueError(f"{self.failures_per_h} failures per hour: give a number of at least 0, such as 7e-5")
        if not 0.0 < self.repairs_per_h < float("inf"):
            raise ValueError(f"{self.repairs_per_h} repairs per hour: give a positive number, such as 0.083")

    def available(self, nodes: int) -> float:
        """P_available, the probability that ``nodes`` nodes are all up at an instant: (1 + lambda / mu) ** -nodes."""
        return float((1.0 + self.failures_per_h / self.repairs_per_h) ** -float(nodes))

    def survives(self, nodes: int, hours: float) -> float:
        """P_success as published: the probability that no node fails in ``hours``, those that the job requests."""
        return exp(-self.failures_per_h * hours * nodes)

    def survives_run(self, nodes: int, requested_h: float, accuracy: RuntimeAccuracy) -> float:
        """P_success as an expectation over run times, instead of over the whole requested time.

        Within each step of the grid the run time counts as uniform.
        """
        rate = self.failures_per_h * requested_h * nodes
        step = rate / (len(GRID) - 1)
        ends = np.exp(-rate * GRID[:-1])
        share = -np.expm1(-step) / step if step > 1e-12 else 1.0
        return float(np.diff(accuracy.cdf) @ ends * share)
