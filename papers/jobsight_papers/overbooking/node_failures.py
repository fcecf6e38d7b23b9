"""Down times of each node, drawn in advance: the same for all strategies."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from jobsight_predictor.arrays import Integers
from jobsight_predictor.runtime.success import MachineFailure


class Downtimes:
    """Down times of nodes in hours: ``begins[n]`` and ``ends[n]`` of node n, ascending, not overlapping."""

    def __init__(self, begins: list[list[float]], ends: list[list[float]]) -> None:
        self._begins, self._ends = begins, ends

    def first(self, processors: Integers, from_h: float, until_h: float) -> float | None:
        """Return the first instant from ``from_h`` until before ``until_h`` with one of the nodes down; None if all
        stay up.
        """
        found: float | None = None
        for node in processors.tolist():
            ends = self._ends[node]
            i = bisect_right(ends, from_h)
            if i < len(ends):
                begin = max(self._begins[node][i], from_h)
                if begin < until_h and (found is None or begin < found):
                    found = begin
        return found

    @property
    def hours(self) -> float:
        """The down hours of all nodes together."""
        return sum(sum(ends) - sum(begins) for begins, ends in zip(self._begins, self._ends, strict=True))


def downtimes(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Draw exponential up (1 / lambda) and down times (1 / mu) in turn, at first down with lambda / (lambda + mu)."""
    begins: list[list[float]] = [[] for _ in range(nodes)]
    ends: list[list[float]] = [[] for _ in range(nodes)]
    if machine.failures_per_h <= 0.0:
        return Downtimes(begins, ends)
    mean_up_h, mean_down_h = 1.0 / machine.failures_per_h, 1.0 / machine.repairs_per_h
    for node in range(nodes):
        rng = np.random.default_rng([seed, node])
        time = 0.0 if rng.random() < mean_down_h / (mean_up_h + mean_down_h) else rng.exponential(mean_up_h)
        while time < horizon_h:
            begins[node].append(time)
            time += rng.exponential(mean_down_h)
            ends[node].append(time)
            time += rng.exponential(mean_up_h)
    return Downtimes(begins, ends)
