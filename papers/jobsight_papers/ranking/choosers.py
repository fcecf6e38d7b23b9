"""The view of the grid and the interface of every rank."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.ranking.owners import HOUR_S
from jobsight_predictor.arrays import Floats, Integers


@dataclass(frozen=True, slots=True)
class GridView:
    """Machines by number: speed, whether free, and since when available (NaN: not)."""

    speed: Floats
    free: NDArray[np.bool_]
    since_s: Floats


def new_view(speed: Floats) -> GridView:
    """Return a view without an available machine."""
    count = len(speed)
    return GridView(speed, np.zeros(count, np.bool_), np.full(count, np.nan))


@dataclass(frozen=True, slots=True)
class Observed:
    """Sessions seen before the first job, each of shape (sessions,): machine, begin, end so far, and whether it
    ended.
    """

    machine: Integers
    begin_s: Floats
    end_s: Floats
    ended: NDArray[np.bool_]


class Chooser:
    """Chooses a machine for each job, and learns of events as they happen, never of later ones."""

    def __init__(self, view: GridView) -> None:
        self.view = view

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        """Choose one of ``candidates``, machine numbers in ascending order, at least one. Ties: the lowest."""
        raise NotImplementedError

    def returned(self, machine: int, begin_s: float) -> None:
        """Note that the machine is available since ``begin_s``."""

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        """Note that the machine was available from ``begin_s`` until its owner came at ``end_s``."""

    def finished(self, machine: int) -> None:
        """Note that a job completed on the machine."""

    def evicted(self, machine: int) -> None:
        """Note that a job lost the machine."""


class FirstCome(Chooser):
    """The machine with the lowest number."""

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        return int(candidates[0])


class AvailabilityOracle(Chooser):
    """Knows all arrivals of owners and all run times: the machine whose owner comes soonest after the job's end.

    Without one, the machine that is available for longest.
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

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        left_s = self._end_s[candidates] - now
        spare_s = left_s - self._work_s[job] / self.view.speed[candidates]
        if (spare_s >= 0.0).any():
            return int(candidates[np.where(spare_s >= 0.0, spare_s, np.inf).argmin()])
        return int(candidates[left_s.argmax()])


WINDOW_S = 28 * 24 * HOUR_S

Session = tuple[float, float]
"""Begin and end, in seconds."""

Figure = Callable[[Sequence[Session], float, float], float]
"""A figure of the sessions that ended in the window, the begin of the present one, and now; more is better."""


def fewest_evictions(ended: Sequence[Session], _begun_s: float, _now: float) -> float:
    return -float(len(ended))


def longest_mean(ended: Sequence[Session], begun_s: float, now: float) -> float:
    return (sum(end - begin for begin, end in ended) + now - begun_s) / (len(ended) + 1)


class HistoryRank(Chooser):
    """The machine with the largest ``figure``; ``history`` are sessions observed before the first job."""

    def __init__(self, view: GridView, figure: Figure, history: Observed) -> None:
        super().__init__(view)
        self._figure = figure
        self._ended: list[deque[Session]] = [deque() for _ in view.speed]
        rows = zip(history.machine, history.begin_s.tolist(), history.end_s.tolist(), history.ended, strict=True)
        for machine, begin, end, has_ended in rows:
            if has_ended:
                self._ended[machine].append((begin, end))

    def left(self, machine: int, begin_s: float, end_s: float) -> None:
        self._ended[machine].append((begin_s, end_s))

    def choose(self, job: int, now: float, candidates: Integers) -> int:
        figures: Floats = np.array([self._of(machine, now) for machine in candidates.tolist()])
        return int(candidates[figures.argmax()])

    def _of(self, machine: int, now: float) -> float:
        ended = self._ended[machine]
        while ended and ended[0][1] < now - WINDOW_S:
            ended.popleft()
        return self._figure(ended, float(self.view.since_s[machine]), now)
