"""Ranks by the chance that a machine stays available for the run time of the job."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from jobsight_predictor.reliability.exposure import Exposure, Ints
from jobsight_predictor.reliability.resource_vector import Floats
from jobsight_predictor.reliability.success import faded
from jobsight_predictor.reliability.survival import Survival, SurvivalSettings

from .base import Chooser, GridView

RELEARN_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class SurvivalVariant:
    """What the rank uses: by default what the server does. Without ``history`` only present sessions at first; with
    ``by_speed`` a fast machine runs a job for less time, ``by_department`` tells their hours apart.
    """

    settings: SurvivalSettings = field(default_factory=SurvivalSettings)
    by_speed: bool = False
    by_prediction: bool = True
    by_department: bool = False
    history: bool = True
    fades: bool = True


class SurvivalRank(Chooser):
    """The highest chance to stay. Learns sessions as they are observed, every six hours.

    ``predicted_s`` by job, on a machine of speed 1; ``history`` are sessions observed before the first job, which end
    at ``begin_s``.
    """

    def __init__(
        self, view: GridView, variant: SurvivalVariant, predicted_s: Floats, history: Exposure, begin_s: float
    ) -> None:
        super().__init__(view)
        groups = view.department if variant.by_department else np.zeros_like(view.department)
        self._learned = Survival(groups, variant.settings)
        self._learned.fit(history if variant.history else _going(history))
        self._speed = view.speed if variant.by_speed else np.ones_like(view.speed)
        self._run_s = predicted_s if variant.by_prediction else np.full_like(predicted_s, predicted_s.mean())
        self._left = faded(RELEARN_S) if variant.fades else 1.0
        self._counted_to = np.full(len(view.speed), begin_s)
        self._relearn_s = begin_s + RELEARN_S
        self._ended: list[tuple[int, float, float]] = []

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        self._ended.append((machine, begin_s, end_s))

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        if now >= self._relearn_s:
            self._relearn(now)
        age_s = now - self.view.since_s[candidates]
        run_s = self._run_s[job] / self._speed[candidates]
        return int(candidates[self._learned.mean_chance(candidates, age_s, now, run_s).argmax()])

    def _relearn(self, now: float) -> None:
        """Takes in the sessions that ended since the last time, and what has passed of those that go on."""
        going = np.flatnonzero(np.isfinite(self.view.since_s))
        machine, begin, end = (np.array(column) for column in zip(*self._ended, strict=True)) if self._ended else _NONE
        numbers = np.concatenate([machine.astype(np.int64), going])
        began = np.concatenate([begin, self.view.since_s[going]])
        to_s = np.concatenate([end, np.full(len(going), now)])
        ended = np.arange(len(numbers)) < len(machine)
        from_s = np.maximum(began, self._counted_to[numbers])
        self._learned.fade(self._left)
        self._learned.learn(Exposure(numbers, began, from_s, to_s, ended))
        self._counted_to[:] = now
        self._ended.clear()
        self._relearn_s = now + RELEARN_S


def _going(history: Exposure) -> Exposure:
    """The sessions that have not ended: their ages are known without a history."""
    of = ~history.ended
    return Exposure(history.machine[of], history.began_s[of], history.from_s[of], history.to_s[of], history.ended[of])


_NONE = (np.empty(0), np.empty(0), np.empty(0))
