"""The probability that a forecast is within 20 %: weighted votes of groups, calibrated by outcomes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import exp
from operator import mul
from typing import TYPE_CHECKING

import numpy as np

from jobsight_predictor.forecasters import Floats
from jobsight_predictor.question import MOMENTS, GroupKey, Moment

from .parts import Aging, Parts, Stored

if TYPE_CHECKING:
    from .forecast import FinishedJob

Forecasts = list[float | None]

STATED = 50.0  # jobs; weight of a predicted probability beside outcomes
TENTHS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # probabilities; ends of the bins of being within 20 %
SCARCE = (0.0, 0.01, 0.03, 0.1, 0.3)  # probabilities; ends of the bins of needing more, most of which are small


class Correction(Stored):
    """Calibrates predicted probabilities bin by bin, shifting each towards the observed frequency; less while jobs are
    few.

    Order within a bin is preserved.
    """

    kept = ("_jobs", "_excess")

    def __init__(self, ends: Sequence[float]) -> None:
        """``ends`` of the bins, ascending; a bin includes its upper end."""
        self._ends = ends
        self._jobs = [0.0] * (len(ends) + 1)
        self._excess = [0.0] * (len(ends) + 1)  # observed over predicted jobs

    def correct(self, stated: float) -> float:
        """Return the calibrated probability, 0..1."""
        k = bisect_left(self._ends, stated)
        return min(1.0, max(0.0, stated + self._excess[k] / (self._jobs[k] + STATED)))

    @property
    def shifts(self) -> list[float]:
        """Return the shift of each bin."""
        return [excess / (jobs + STATED) for jobs, excess in zip(self._jobs, self._excess, strict=True)]

    def score(self, stated: float, came: bool, weight: float) -> None:
        """Learn whether an event of this predicted probability occurred; ``weight`` of the job, 0..1."""
        k = bisect_left(self._ends, stated)
        self._jobs[k] += weight
        self._excess[k] += weight * (came - stated)


FEATURES = ("votes agree", "user's hits", "group's hits", "group near the forecast")
"""The inputs of the estimate, each 0..1."""

HIT_FADE = 0.9  # share of a hit's or miss's weight left one job later
STEP = 0.05  # log odds; first step of each weight
STEADY = 0.1  # share of that step left at the end
FINDING = 2000.0  # jobs after which the step has halved
FIRST_WEIGHTS = (-4.0, 2.0, 2.0, 2.0, 1.0)  # log odds; initial weights of a constant and of each feature


class Hits(Stored):
    """A decaying share of forecasts within 20 %, close to a prior while there are few."""

    __slots__ = kept = ("hits", "trials")

    def __init__(self) -> None:
        self.hits = 0.0
        self.trials = 0.0

    def score(self, hit: bool) -> None:
        """Learn whether one more forecast was within 20 %."""
        self.hits = self.hits * HIT_FADE + hit
        self.trials = self.trials * HIT_FADE + 1.0

    def share(self, prior: float) -> float:
        """Return the share, 0..1; ``prior`` weighs as much as one trial."""
        return (self.hits + prior) / (self.trials + 1.0)


class HitProbability(Stored):
    """Logistic regression of hit or miss on ``FEATURES``, learned online, one small step per job.

    Starts with positive weights of all features, so that the first answers rank sensibly. PQM only compares values with
    the first one, not with forecasts. The output is calibrated by outcomes.
    """

    kept = ("_weights", "_n", "_correction")

    def __init__(self) -> None:
        self._weights = list(FIRST_WEIGHTS)
        self._n = 0
        self._correction = Correction(TENTHS)

    def probability(self, features: Sequence[float]) -> float:
        """Return the probability that the forecast is within 20 % of the job's use, 0..1."""
        return self._correction.correct(self._regression(features))

    def _regression(self, features: Sequence[float]) -> float:
        lean = self._weights[0] + sum(map(mul, self._weights[1:], features))
        return 1.0 / (1.0 + exp(-lean)) if lean > -500.0 else 0.0

    def score(self, job: FinishedJob) -> None:
        """Learn whether the job's forecast was within 20 %."""
        if job.hit is not None:
            self.learn(job.forecast.features, job.hit, job.weight)

    def learn(self, features: Sequence[float], hit: bool, weight: float = 1.0) -> None:
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


FADE = 0.995  # share of a loss's weight left one job later
PRIOR = 3.0  # jobs of a user that weigh as much as the whole site
FAINTEST = 1e-3  # share of the heaviest vote; lighter votes are left out, and cannot be runner-up
TRUST = 20.0  # 1 / error; a vote weighs exp(-TRUST d) if its expected capped relative error is d above the least


def capped_error(forecast: float, actual: float) -> float:
    """Return ``min(1, |forecast - actual| / actual)``, 0..1: 1 minus the accuracy. For an actual of 0: 0 if exact, else
    1."""
    miss = abs(forecast - actual)
    return miss / actual if miss < actual else float(miss > 0.0)


class ExpertLosses(Aging):
    """A user's losses of each expert, decaying; undecayed, for the mean error; and of the answers. The last two at
    submission."""

    __slots__ = kept = ("faded", "totals", "hits", "answered", "jobs")

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.faded = np.zeros((2, len(MOMENTS), experts))
        self.totals = np.zeros(experts)
        self.hits = Hits()
        self.answered = 0.0
        self.jobs = 0


class ExpertWeights(Stored):
    """Turns the losses of a fixed number of experts into weights for their votes.

    A user's weights come from the user's own jobs, and from the site's while those are few; an unknown user gets the
    site's. Forecasts at submission and at start have separate weights. Losses and the counts of forecasts decay alike:
    (2, moments, experts).
    """

    kept = ("_site",)

    def __init__(self, experts: int) -> None:
        self._site = np.zeros((2, len(MOMENTS), experts))
        self.users = Parts("user", lambda: ExpertLosses(experts))

    def weights(self, user: GroupKey, moment: Moment) -> list[float]:
        """Return the weight of each expert's vote, (experts,), 1 for the one expected to be best.

        Each starts with one loss of one half.
        """
        row = MOMENTS.index(moment)
        lost, spoke = self._site[:, row]
        expected = (lost + 0.5) / (spoke + 1.0)
        losses = self.users.get(user)
        if losses is not None:
            lost, spoke = losses.faded[:, row]
            expected = (lost + PRIOR * expected) / (spoke + PRIOR)
        weights: list[float] = np.exp(TRUST * (expected.min() - expected)).tolist()
        return weights

    def score(self, job: FinishedJob) -> None:
        """Learn the losses of each expert and of the answer, at submission and at start."""
        at_submission, at_start = job.forecast.forecasts, job.at_start.forecasts
        losses = self.users.to_learn(job.keys.user)
        moments = [at_submission] if at_start is None or at_start is at_submission else [at_submission, at_start]
        lost, spoke = of_job = _lost(np.array(moments, dtype=np.float64), job.value)
        losses.totals += lost[0]
        losses.jobs += 1
        lost *= spoke
        fades = 1.0 - (1.0 - FADE) * spoke
        for faded in (self._site, losses.faded):
            faded *= fades
            faded += of_job
        if job.hit is None or job.forecast.value is None:
            losses.answered += 1.0
        else:
            losses.answered += capped_error(job.forecast.value, job.value)
            losses.hits.score(job.hit)


def _lost(forecasts: Floats, actual: float) -> Floats:
    """Return the relative error of each forecast, at most 1, also for a missing one; and which were present (1, else
    0)."""
    found = np.empty((2, *forecasts.shape))
    lost, found[1] = found[0], forecasts == forecasts  # not NaN
    np.abs(forecasts - actual, out=lost)
    if actual > 0.0:
        # Capped before dividing, so no quotient overflows. ``fmin`` ignores NaN, so a missing forecast has the whole
        # loss.
        np.fmin(lost, actual, out=lost)
        lost /= actual
    else:
        lost[:] = lost != 0.0
    return found


def best_vote(votes: Mapping[float, float]) -> list[tuple[float, float]]:
    """Return (accuracy expected by the weighted votes, forecast) for each forecast that counts, best first.

    The first maximises ``sum_q w_q max(0, 1 - |p - q| / q)``, whose maximum is always at one of the votes. Votes below
    ``FAINTEST`` of the heaviest weight are left out.
    """
    least = max(votes.values()) * FAINTEST
    counted = [(q, weight) for q, weight in votes.items() if weight > least]
    whole = sum([weight for _, weight in counted])
    expected: list[tuple[float, float]] = []
    for p, _ in counted:
        half = 0.5 * p
        total = 0.0
        for q, weight in counted:
            if p <= q:
                total += weight * (p / q) if q else weight
            elif half < q:
                total += weight * (2.0 - p / q)
        expected.append((total / whole, p))
    if len(expected) > 1:
        expected.sort(reverse=True)
    return expected
