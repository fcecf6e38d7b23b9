"""Ranks by one plain figure of each machine's sessions of the last four weeks: what any better rank has to beat."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from jobsight_papers.ranking.choosers.base import Chooser, GridView, Observed
from jobsight_papers.ranking.machines import HOUR_S, Ints
from jobsight_predictor.reliability.resource_vector import Floats

WINDOW_S = 28 * 24 * HOUR_S

Session = tuple[float, float]
"""Begin and end, in seconds."""

Figure = Callable[[Sequence[Session], float, float], float]
"""Of the sessions that ended in the window, of when the present one began, and of now; more is better."""


def fewest_evictions(ended: Sequence[Session], _begun_s: float, _now: float) -> float:
    return -float(len(ended))


def longest_present(_ended: Sequence[Session], begun_s: float, now: float) -> float:
    return now - begun_s


def longest_last(ended: Sequence[Session], begun_s: float, now: float) -> float:
    """The length of the last session that ended; of the present one if none has."""
    return ended[-1][1] - ended[-1][0] if ended else now - begun_s


def longest_mean(ended: Sequence[Session], begun_s: float, now: float) -> float:
    return (sum(end - begin for begin, end in ended) + now - begun_s) / (len(ended) + 1)


def share_of_time(ended: Sequence[Session], begun_s: float, now: float) -> float:
    since = now - WINDOW_S
    return sum(end - max(begin, since) for begin, end in (*ended, (begun_s, now))) / WINDOW_S


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

    def choose(self, job: int, now: float, candidates: Ints) -> int:
        figures: Floats = np.array([self._of(machine, now) for machine in candidates.tolist()])
        return int(candidates[figures.argmax()])

    def _of(self, machine: int, now: float) -> float:
        ended = self._ended[machine]
        while ended and ended[0][1] < now - WINDOW_S:
            ended.popleft()
        return self._figure(ended, float(self.view.since_s[machine]), now)
