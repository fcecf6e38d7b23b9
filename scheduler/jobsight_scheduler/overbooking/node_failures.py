"""When each node is down, drawn in advance: the same for all strategies."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from jobsight_predictor.runtime.machine_failure import MachineFailure

from .booking import Ints


class Downtimes:
    """Down times of nodes: ``begins[n]`` and ``ends[n]`` of node n, ascending, in hours."""

    def __init__(self, begins: list[list[float]], ends: list[list[float]]) -> None:
        self._begins, self._ends = begins, ends

    def first(self, processors: Ints, from_h: float, until_h: float) -> float | None:
        """First instant of ``from_h`` .. ``until_h`` at which one of the nodes is down; None if all stay up."""
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
        """Hours that nodes are down, of all nodes together."""
        return sum(sum(ends) - sum(begins) for begins, ends in zip(self._begins, self._ends, strict=True))


def constant_downtimes(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Nodes alternate exponentially up (1 / lambda) and down (1 / mu), at first down with lambda / (lambda + mu)."""
    begins: list[list[float]] = []
    ends: list[list[float]] = []
    rate, repair = machine.failures_per_h, machine.repairs_per_h
    for node in range(nodes):
        rng = np.random.default_rng([seed, node])
        begins.append([])
        ends.append([])
        if rate <= 0.0:
            continue
        is_down = rng.random() < rate / (rate + repair)
        time = 0.0
        while time < horizon_h:
            length = rng.exponential(1.0 / repair if is_down else 1.0 / rate)
            if is_down:
                begins[node].append(time)
                ends[node].append(time + length)
            time += length
            is_down = not is_down
    return Downtimes(begins, ends)
