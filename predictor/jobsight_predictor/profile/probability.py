"""How likely a forecast is to be within 20 %, and stated probabilities corrected by how often they came true."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import exp
from operator import mul
from typing import Any, Self

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


FEATURES = ("votes agree", "user's hits", "group's hits", "group near the forecast")
"""The inputs of the estimate, each 0..1."""

HIT_FADE = 0.9  # share; of a hit or miss that still counts one job later
STEP = 0.05  # log odds; step by which a job moves each weight at first
STEADY = 0.1  # share; of that step once the weights have settled
FINDING = 2000.0  # jobs; after which the step is half of the first
FIRST_WEIGHTS = (-4.0, 2.0, 2.0, 2.0, 1.0)  # log odds; before the first job, of a constant and of each feature


class Hits:
    """A faded share of forecasts within 20 %, close to a prior while there are few."""

    __slots__ = ("hits", "trials")

    def __init__(self, hits: float = 0.0, trials: float = 0.0) -> None:
        self.hits = hits
        self.trials = trials

    def score(self, hit: bool) -> None:
        """Learn whether one more forecast was within 20 %."""
        self.hits = self.hits * HIT_FADE + hit
        self.trials = self.trials * HIT_FADE + 1.0

    def share(self, prior: float) -> float:
        """The share, 0..1; ``prior`` weighs as much as one trial."""
        return (self.hits + prior) / (self.trials + 1.0)


class HitProbability:
    """Logistic regression of hit or miss on ``FEATURES``, learned online, one small step per job.

    Starts from weights that let every feature count, so that the first answers rank sensibly. PQM only considers how
    similar the values are to the first one, not how forecasts fared. What the regression says is corrected by how
    often it came true.
    """

    def __init__(self) -> None:
        self._weights = list(FIRST_WEIGHTS)
        self._n = 0
        self._correction = Correction(TENTHS)

    def probability(self, features: Sequence[float]) -> float:
        """Probability that the forecast is within 20 % of what the job will use, 0..1."""
        return self._correction.correct(self._regression(features))

    def _regression(self, features: Sequence[float]) -> float:
        lean = self._weights[0] + sum(map(mul, self._weights[1:], features))
        return 1.0 / (1.0 + exp(-lean)) if lean > -500.0 else 0.0

    def score(self, features: Sequence[float], hit: bool, weight: float = 1.0) -> None:
        """Learn whether the forecast with these features was within 20 %; ``weight`` of the job in the correction."""
        # Quick to settle, steady afterwards.
        self._n += 1
        step = STEP * max(STEADY, 1.0 / (1.0 + self._n / FINDING))
        stated = self._regression(features)
        self._correction.score(stated, hit, weight)
        push = step * (hit - stated)
        weights = self._weights
        weights[0] += push
        for i, feature in enumerate(features, start=1):
            weights[i] += push * feature

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {"weights": list(self._weights), "n": self._n, "correction": self._correction.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Restores exactly the one whose ``state()`` this was."""
        restored = cls()
        restored._weights = [float(weight) for weight in state["weights"]]
        restored._n = int(state["n"])
        restored._correction.load(state["correction"])
        return restored
