"""The simplest ranks, and the best possible one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobsight_papers.ranking.choosers.base import Chooser, GridView
from jobsight_papers.ranking.machines import Ints
from jobsight_predictor.reliability.resource_vector import Floats


class FirstCome(Chooser):
    """The machine with the lowest number."""

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        return int(candidates[0])


class FastestFirst(Chooser):
    """The fastest machine."""

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        return int(candidates[self.view.speed[candidates].argmax()])


class Lazy(Chooser):
    """Idle machines ask for work: that which has been idle for longest comes first."""

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        return int(candidates[self.view.free_since_s[candidates].argmin()])


class Random(Chooser):
    """Any machine."""

    def __init__(self, view: GridView, rng: np.random.Generator) -> None:
        super().__init__(view)
        self._rng = rng

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        return int(candidates[self._rng.integers(len(candidates))])


class AvailabilityOracle(Chooser):
    """Knows when each owner will come and how long each job runs: the machine that is left soonest after the job's end,

    else that which is available for longest.
    """

    def __init__(self, view: GridView, ends: Sequence[Floats], work_s: Floats) -> None:
        super().__init__(view)
        self._ends = [times.tolist() for times in ends]
        self._session = [0] * len(ends)
        self._end_s = np.full(len(ends), np.inf)
        self._work_s = work_s

    def returned(self, machine: int, begin_s: float) -> None:
        ends = self._ends[machine]
        while ends[self._session[machine]] <= begin_s:
            self._session[machine] += 1
        self._end_s[machine] = ends[self._session[machine]]

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        left_s = self._end_s[candidates] - now
        spare_s = left_s - self._work_s[job] / self.view.speed[candidates]
        if (spare_s >= 0.0).any():
            return int(candidates[np.where(spare_s >= 0.0, spare_s, np.inf).argmin()])
        return int(candidates[left_s.argmax()])
