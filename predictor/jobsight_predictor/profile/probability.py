"""The probability that a forecast is within 20 %: weighted votes of groups, calibrated by outcomes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import exp, inf
from operator import mul
from typing import TYPE_CHECKING

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


class Losses(Stored):
    """The losses of each expert, and the counts of its forecasts; both decay alike."""

    __slots__ = kept = ("lost", "spoke")

    def __init__(self, experts: int) -> None:
        self.lost = [0.0] * experts
        self.spoke = [0.0] * experts

    def score(self, errors: Sequence[tuple[int, float]]) -> None:
        """Learn these experts' errors, 0..1."""
        lost, spoke = self.lost, self.spoke
        for i, error in errors:
            lost[i] = lost[i] * FADE + error
            spoke[i] = spoke[i] * FADE + 1.0


class ExpertLosses(Aging):
    """A user's losses of each expert, decaying; and at submission the sum of each expert's accuracies, 0 for a missing
    forecast, and of the answers' losses."""

    __slots__ = kept = ("faded", "accuracies", "hits", "answered", "jobs")

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.faded = {moment: Losses(experts) for moment in MOMENTS}
        self.accuracies = [0.0] * experts
        self.hits = Hits()
        self.answered = 0.0
        self.jobs = 0


class ExpertWeights(Stored):
    """Turns the losses of a fixed number of experts into weights for their votes.

    A user's weights come from the user's own jobs, and from the site's while those are few; an unknown user gets the
    site's. Forecasts at submission and at start have separate weights.
    """

    kept = ("_site",)

    def __init__(self, experts: int) -> None:
        self._site = {moment: Losses(experts) for moment in MOMENTS}
        self.users = Parts("user", lambda: ExpertLosses(experts))

    def weights(self, user: GroupKey, moment: Moment, forecasts: Forecasts) -> list[float]:
        """Return the weight of each expert's vote, (experts,), 1 for the one expected to be best; 0 without a vote.

        Each starts with one loss of one half.
        """
        site, known = self._site[moment], self.users.get(user)
        expected = [
            inf if said is None else (lost + 0.5) / (spoke + 1.0)
            for said, lost, spoke in zip(forecasts, site.lost, site.spoke, strict=True)
        ]
        if known is not None:
            own = known.faded[moment]
            expected = [
                (lost + PRIOR * prior) / (spoke + PRIOR)
                for prior, lost, spoke in zip(expected, own.lost, own.spoke, strict=True)
            ]
        least = min(expected)
        return [exp(TRUST * (least - each)) for each in expected]

    def score(self, job: FinishedJob) -> None:
        """Learn the losses of each expert and of the answer, at submission and at start."""
        at_submission, at_start = job.forecast.forecasts, job.at_start.forecasts
        losses = self.users.to_learn(job.keys.user)
        first = errors = _errors(at_submission, job.value)
        if at_start is not None and at_start is not at_submission:
            errors = _errors(at_start, job.value)
        for of_moments in (self._site, losses.faded):
            of_moments["submission"].score(first)
            of_moments["start"].score(errors)
        for i, error in first:
            losses.accuracies[i] += 1.0 - error
        losses.jobs += 1
        if job.hit is None or job.forecast.value is None:
            losses.answered += 1.0
        else:
            losses.answered += capped_error(job.forecast.value, job.value)
            losses.hits.score(job.hit)


def _errors(forecasts: Forecasts, actual: float) -> list[tuple[int, float]]:
    """Return (expert, ``capped_error`` of its forecast) for each that made one."""
    return [(i, capped_error(said, actual)) for i, said in enumerate(forecasts) if said is not None]


def best_vote(votes: Mapping[float, float]) -> list[tuple[float, float]]:
    """Return (accuracy expected by the weighted votes, forecast) for each forecast that counts, best first.

    The first maximises ``sum_q w_q max(0, 1 - |p - q| / q)``, whose maximum is always at one of the votes. Votes below
    ``FAINTEST`` of the heaviest weight are left out.
    """
    least = max(votes.values()) * FAINTEST
    counted = sorted([vote for vote in votes.items() if vote[1] > least])
    whole = sum([weight for _, weight in counted])
    expected: list[tuple[float, float]] = []
    higher, last = 0.0, inf
    while counted:
        p, weight = counted.pop()
        higher = total = weight + higher * (p / last)  # sum of w_q p / q of the votes from here on
        last = p
        for q, lower in reversed(counted):
            if 2.0 * q <= p:
                break
            total += lower * (2.0 - p / q)
        expected.append((total / whole, p))
    expected.sort(reverse=True)
    return expected
