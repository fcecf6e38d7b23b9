"""Corrects stated probabilities by how often they came true."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

STATED = 50.0  # jobs; weight of a stated probability beside what happened
TENTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # probabilities; ends of the bins of being within 20 %
SCARCE = (0.0, 0.01, 0.03, 0.1, 0.3)  # probabilities; ends of the bins of needing more, most of which are small


class Correction:
    """Shifts the stated probabilities of a bin by how much more or less often they came true, less while jobs are few.

    Within a bin, what was likelier stays likelier.
    """

    def __init__(self, ends: Sequence[float]) -> None:
        """``ends`` of the bins, ascending; a bin has its own upper end."""
        self._ends = ends
        self._jobs = [0.0] * (len(ends) + 1)
        self._excess = [0.0] * (len(ends) + 1)  # of jobs that came true over those stated to

    def correct(self, stated: float) -> float:
        """The probability, 0..1, where this was stated."""
        k = bisect_left(self._ends, stated)
        return min(1.0, max(0.0, stated + self._excess[k] / (self._jobs[k] + STATED)))

    def score(self, stated: float, came: bool, weight: float) -> None:
        """Learn whether what was stated to be this likely came true; ``weight`` of the job, 0..1."""
        k = bisect_left(self._ends, stated)
        self._jobs[k] += weight
        self._excess[k] += weight * (came - stated)

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [list(self._jobs), list(self._excess)]

    def load(self, state: Sequence[Sequence[float]]) -> None:
        """Take over ``state()`` of one with the same bins."""
        self._jobs, self._excess = map(list, state)
