"""The server's rank: the probability that a machine stays available for the run time of the job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.ranking.choosers import Chooser, GridView, Observed
from jobsight_papers.ranking.owners import HOUR_S
from jobsight_predictor.arrays import Floats, Integers
from jobsight_predictor.reliability.fading import faded
from jobsight_predictor.reliability.resource_vector import (
    WEIGHTS,
    SuccessRecord,
    after_job,
    availability,
    capacities,
    success,
)
from jobsight_predictor.reliability.survival import AGES_S, Survival

RELEARN_S = 6 * HOUR_S
DAY_S = 24 * HOUR_S


class Ageless(Survival):
    """Survival whose hazard does not change with the age of a session."""

    def age_factor(self) -> Floats:
        return np.ones(len(AGES_S))


class SurvivalRank(Chooser):
    """The highest probability to stay. Learns sessions as observed, every six hours.

    ``predicted_s`` by job, whatever the machine. Without ``by_age`` only each machine's own rate counts; ``history``
    ends at ``begin_s``, when the first job comes.
    """

    def __init__(self, view: GridView, by_age: bool, predicted_s: Floats, history: Observed, begin_s: float) -> None:
        super().__init__(view)
        self._run_s: list[float] = predicted_s.tolist()
        self._learned = (Survival if by_age else Ageless)(len(view.speed))
        self._ended: list[tuple[int, float, float]] = []
        self._learned_to = float(history.begin_s.min(initial=begin_s))
        while self._learned_to < begin_s:
            now = min(self._learned_to + DAY_S, begin_s)
            of = (history.begin_s < now) & (history.end_s > self._learned_to)
            ends = history.end_s[of]
            self._learn(
                history.machine[of], history.begin_s[of], np.minimum(ends, now), history.ended[of] & (ends <= now), now
            )

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        self._ended.append((machine, begin_s, end_s))

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        if now >= self._learned_to + RELEARN_S:
            machine, begin, end = np.array(self._ended).reshape(-1, 3).T
            going = np.flatnonzero(np.isfinite(self.view.since_s))
            numbers = np.concatenate([machine.astype(np.int64), going])
            begins = np.concatenate([begin, self.view.since_s[going]])
            ends = np.concatenate([end, np.full(len(going), now)])
            self._learn(numbers, begins, ends, np.arange(len(numbers)) < len(machine), now)
            self._ended.clear()
        age_s = now - self.view.since_s[candidates]
        return int(candidates[self._learned.chance(candidates, age_s, self._run_s[job]).mean.argmax()])

    def _learn(self, machine: Integers, begin_s: Floats, end_s: Floats, ended: NDArray[np.bool_], now: float) -> None:
        """Take in the parts of sessions since the last time."""
        self._learned.fade(faded(now - self._learned_to))
        self._learned.learn(machine, begin_s, np.maximum(begin_s, self._learned_to), end_s, ended, now)
        self._learned_to = now


FLOPS = 3e9
"""FLOPS of a core of speed 1; they matter only where CA is raw."""

Weights = tuple[float, float, float]
"""Of RA, JS and CA; their sum is 1."""


class ResourceVectorRank(Chooser):
    """The highest GRV. With ``is_raw`` CA is the plain product, which outweighs the other terms."""

    def __init__(self, view: GridView, weights: Weights = WEIGHTS, is_raw: bool = False) -> None:
        super().__init__(view)
        self.weights = weights
        self._records = [SuccessRecord() for _ in view.speed]
        self._score = np.array([record.score for record in self._records])
        flops = FLOPS * view.speed
        self._capacity = flops if is_raw else capacities(flops, np.ones(len(flops)))

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        ra = availability(now - self.view.since_s[candidates])
        js = success(self._score[candidates])
        w1, w2, w3 = self.weights
        score: Floats = w1 * ra + w2 * js + w3 * self._capacity[candidates]
        return int(candidates[score.argmax()])

    def finished(self, machine: int) -> None:
        self._records[machine] = after_job(self._records[machine], "success")
        self._score[machine] = self._records[machine].score

    def evicted(self, machine: int) -> None:
        self._records[machine] = after_job(self._records[machine], "evicted")
        self._score[machine] = self._records[machine].score
