"""Ranks by the grid resource vector."""

from __future__ import annotations

import numpy as np

from jobsight_papers.ranking.choosers.base import Chooser, GridView, Observed
from jobsight_papers.ranking.machines import Ints
from jobsight_predictor.reliability.resource_vector import (
    Floats,
    VectorSettings,
    after_job,
    availability,
    capacities,
    new_record,
    success,
)

FLOPS = 3e9
"""Of a core of speed 1; it matters only where CA is raw."""


class ResourceVectorRank(Chooser):
    """The highest GRV."""

    def __init__(self, view: GridView, settings: VectorSettings) -> None:
        super().__init__(view)
        self.settings = settings
        self._records = [new_record(settings) for _ in view.speed]
        self._score = np.array([record.score for record in self._records])
        self._capacity = capacities(FLOPS * view.speed, np.ones(len(view.speed)), settings=settings)

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        ra = availability(now - self.view.since_s[candidates], self.settings)
        js = success(self._score[candidates], self.settings)
        w1, w2, w3 = self.settings.weights
        score: Floats = w1 * ra + w2 * js + w3 * self._capacity[candidates]
        return int(candidates[score.argmax()])

    def finished(self, machine: int) -> None:
        self._records[machine] = after_job(self._records[machine], "success", self.settings)
        self._score[machine] = self._records[machine].score

    def evicted(self, machine: int) -> None:
        self._records[machine] = after_job(self._records[machine], "evicted", self.settings)
        self._score[machine] = self._records[machine].score


class ObservedVectorRank(ResourceVectorRank):
    """GRV with the history that other ranks have: JS counts the sessions of all machines, not only those with jobs.

    As if a job of ``run_s`` after the other had run there: each that fits in a session succeeded, the last was evicted.
    """

    def __init__(self, view: GridView, settings: VectorSettings, run_s: float, history: Observed) -> None:
        super().__init__(view, settings)
        self._run_s = run_s
        rows = zip(history.machine, history.begin_s, history.end_s, history.ended, strict=True)
        for machine, begin_s, end_s, has_ended in rows:
            if has_ended:
                self.left(machine, begin_s, end_s)

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        for _ in range(int((end_s - begin_s) / self._run_s)):
            super().finished(machine)
        super().evicted(machine)

    def finished(self, machine: int) -> None:
        """Its session counts instead."""

    def evicted(self, machine: int) -> None:
        """Its session counts instead."""
