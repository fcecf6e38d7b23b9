"""Down times of each node, drawn in advance: the same for all strategies. Planners always assume a constant rate."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import gamma

import numpy as np

from jobsight_predictor.arrays import Integers
from jobsight_predictor.runtime.success import MachineFailure

WEIBULL_SHAPE = 0.7
"""Below 1: a node that has just been repaired fails sooner, as in logs of large clusters."""

WEEK_H = 168.0
BUSY_HOURS = (8.0, 18.0)
BUSY_FACTOR = 3.0
"""Rate of failures from 8 to 18 h on the first five days of the week, over that of the other hours."""

GROUP = 16
SHARED = 0.5
"""Number of nodes that fail together, as on one switch, and the share of such failures."""


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


NextFailure = Callable[[np.random.Generator, float], float]
"""Draws the failure of a node that is up from an instant on."""


def constant(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Draw exponential up (1 / lambda) and down times (1 / mu) in turn, at first down with lambda / (lambda + mu)."""
    scale = _mean_up(machine)
    return _alternating(nodes, machine, horizon_h, seed, lambda rng, now: now + rng.exponential(scale))


def weibull(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Draw up times of a Weibull distribution with the same mean."""
    scale = _mean_up(machine) / gamma(1.0 + 1.0 / WEIBULL_SHAPE)
    return _alternating(nodes, machine, horizon_h, seed, lambda rng, now: now + scale * rng.weibull(WEIBULL_SHAPE))


def hour_of_week(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Draw by thinning, at a rate that follows the hour of the week, with the same mean."""
    busy_share = 5.0 * (BUSY_HOURS[1] - BUSY_HOURS[0]) / WEEK_H
    highest = BUSY_FACTOR / (1.0 + busy_share * (BUSY_FACTOR - 1.0))
    scale = _mean_up(machine) / highest

    def next_failure(rng: np.random.Generator, now: float) -> float:
        while now < horizon_h:
            now += rng.exponential(scale)
            day, hour = divmod(now % WEEK_H, 24.0)
            is_busy = day < 5.0 and BUSY_HOURS[0] <= hour < BUSY_HOURS[1]
            if is_busy or rng.random() < 1.0 / BUSY_FACTOR:
                break
        return now

    return _alternating(nodes, machine, horizon_h, seed, next_failure)


def correlated(nodes: int, machine: MachineFailure, horizon_h: float, seed: int) -> Downtimes:
    """Draw half of a node's failures for its group of 16, which go down and up together."""
    part = MachineFailure(machine.failures_per_h * SHARED, machine.repairs_per_h)
    own, shared = constant(nodes, part, horizon_h, seed), constant(-(-nodes // GROUP), part, horizon_h, seed + 2**40)
    begins: list[list[float]] = []
    ends: list[list[float]] = []
    for node in range(nodes):
        group = node // GROUP
        spans = sorted(
            [
                *zip(own._begins[node], own._ends[node], strict=True),
                *zip(shared._begins[group], shared._ends[group], strict=True),
            ]
        )
        merged: list[list[float]] = []
        for begin, end in spans:
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        begins.append([begin for begin, _ in merged])
        ends.append([end for _, end in merged])
    return Downtimes(begins, ends)


FAILURE_MODELS: dict[str, Callable[[int, MachineFailure, float, int], Downtimes]] = {
    "constant": constant,
    "weibull": weibull,
    "hour-of-week": hour_of_week,
    "correlated": correlated,
}
"""The choices of ``--failures``."""


def _mean_up(machine: MachineFailure) -> float:
    return 1.0 / machine.failures_per_h if machine.failures_per_h > 0.0 else np.inf


def _alternating(
    nodes: int, machine: MachineFailure, horizon_h: float, seed: int, next_failure: NextFailure
) -> Downtimes:
    begins: list[list[float]] = []
    ends: list[list[float]] = []
    down_share = machine.failures_per_h / (machine.failures_per_h + machine.repairs_per_h)
    for node in range(nodes):
        rng = np.random.default_rng([seed, node])
        begins.append([])
        ends.append([])
        if machine.failures_per_h <= 0.0:
            continue
        time = 0.0 if rng.random() < down_share else next_failure(rng, 0.0)
        while time < horizon_h:
            begins[node].append(time)
            time += rng.exponential(1.0 / machine.repairs_per_h)
            ends[node].append(time)
            time = next_failure(rng, time)
    return Downtimes(begins, ends)
