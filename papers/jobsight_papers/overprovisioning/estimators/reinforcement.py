"""Reinforcement learning: one policy for all jobs, learned from the reward of each attempt (Yom-Tov and Aridor
2006)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from random import Random

from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, Estimator, SystemState
from jobsight_predictor.question import Question

OPTIMISM = 1.0
"""Least value of an untried choice: no reward is larger, so everything is tried."""

FAILURE = 1.0
"""Penalty for a failed attempt; saving the whole memory of its nodes would earn 1."""

SLOWEST = 0.002
"""Weight of the latest reward for a choice that has been tried often, so that old rewards are forgotten."""

BUSY_LEVELS = (0.5, 1.0)
QUEUE_LEVELS = (1, 10)

_State = tuple[int, ...]
"""Class of the request, how busy the nodes of each class are, how long the queue is; levels from 0 to 2."""


class Reinforcement(Estimator):
    """A table of values by state and capacity asked for; always asks for the most valuable, the smaller among equals.

    The state does not depend on who submits what: it is the requested class, how busy the nodes are, and how many
    jobs wait. Values start at random, above every possible reward, so that each choice is tried until it disappoints.
    With explicit feedback, an attempt shows for every capacity whether it would have been enough.
    """

    name = "reinforcement"
    sees_system = True

    def __init__(self, capacities: Sequence[float]) -> None:
        super().__init__(capacities)
        rng = Random(0)
        self._start = [OPTIMISM + 0.01 * rng.random() for _ in self.capacities]
        self._values: dict[_State, list[float]] = {}
        self._tried: dict[_State, list[int]] = {}

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        highest = bisect_left(self.capacities, requested)
        if not highest:
            return requested
        values = self._values.get(self._state(highest, system), self._start)[: highest + 1]
        place = values.index(max(values)) if highest < len(self.capacities) else 0
        return min(self.capacities[place], requested)

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        highest = bisect_left(self.capacities, requested)
        if not 0 < highest < len(self.capacities):
            return
        state = self._state(highest, outcome.system)
        values = self._values.setdefault(state, list(self._start))
        tried = self._tried.setdefault(state, [0] * len(values))
        if outcome.used is not None:
            places: Sequence[int] = range(highest + 1)
        else:
            # Success on more than was asked for says nothing about what was asked for.
            places = [min(bisect_left(self.capacities, outcome.given), highest)]
        for place in places:
            if outcome.used is not None:
                failed = self.capacities[place] < min(outcome.used, requested)
            else:
                failed = outcome.failed
            tried[place] += 1
            weight = max(1.0 / tried[place], SLOWEST)
            # The share of the requested capacity that is left free for others; a failure wastes nodes.
            reward = -FAILURE if failed else 1.0 - self.capacities[place] / self.capacities[highest]
            values[place] += weight * (reward - values[place])

    def _state(self, highest: int, system: SystemState | None) -> _State:
        if system is None:
            return (highest,)
        busy = [
            sum(level <= 1.0 - free / nodes for level in BUSY_LEVELS)
            for free, nodes in zip(system.free, system.nodes, strict=True)
        ]
        return (highest, *busy, sum(level <= system.queued for level in QUEUE_LEVELS))
