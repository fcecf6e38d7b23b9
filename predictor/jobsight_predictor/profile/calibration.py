"""What outcomes teach: the weights of votes, probabilities that come true as stated, and the price of failures."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import chain
from math import exp, inf, log
from operator import mul
from typing import Any

from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.profile.groups import CANDIDATES, Aging, Hits, Parts, Stored
from jobsight_predictor.profile.prospect import NEAR_LIMIT
from jobsight_predictor.question import MOMENTS, GroupKey, Moment

Forecasts = list[tuple[int, Sequence[float]]]
"""The number of each group that makes forecasts, and those of its ``CANDIDATES``."""

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

    def correct_all(self, stated: Sequence[float]) -> list[float]:
        """Return the calibrated probability of each."""
        return [self.correct(each) for each in stated]

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

STEP = 0.05  # log odds; first step of each weight
STEADY = 0.1  # share of that step left at the end
FINDING = 2000.0  # jobs after which the step has halved
FIRST_WEIGHTS = (-4.0, 2.0, 2.0, 2.0, 1.0)  # log odds; initial weights of a constant and of each feature


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
    """The losses of the candidates of each group, decaying."""

    __slots__ = kept = ("of_groups",)

    def __init__(self, groups: int) -> None:
        # By number of the group: how often it made forecasts, and the losses of its four ``CANDIDATES``. To replace a
        # list costs a third of changing its five numbers.
        self.of_groups: list[list[float]] = [[0.0] * (1 + len(CANDIDATES))] * groups

    def score(self, errors: Forecasts) -> None:
        """Learn the errors, 0..1, of the groups that made forecasts."""
        of_groups = self.of_groups
        for number, (e, f, g, h) in errors:
            n, a, b, c, d = of_groups[number]
            of_groups[number] = [n * FADE + 1.0, a * FADE + e, b * FADE + f, c * FADE + g, d * FADE + h]


class ExpertLosses(Aging):
    """A user's losses of each candidate, decaying; and at submission the sums of each candidate's accuracies by group,
    0 for a missing forecast, and of the answers' losses."""

    __slots__ = kept = ("faded", "accuracies", "hits", "answered", "jobs")

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.faded = {moment: Losses(groups) for moment in MOMENTS}
        self.accuracies: list[list[float]] = [[0.0] * len(CANDIDATES)] * groups
        self.hits = Hits()
        self.answered = 0.0
        self.jobs = 0


class ExpertWeights(Stored):
    """Turns the losses of the candidates of a fixed number of groups into weights for their votes.

    A user's weights come from the user's own jobs, and from the site's while those are few; an unknown user gets the
    site's. Forecasts at submission and at start have separate weights.
    """

    kept = ("_site",)

    def __init__(self, groups: int) -> None:
        self._site = {moment: Losses(groups) for moment in MOMENTS}
        self.users = Parts("user", lambda: ExpertLosses(groups))

    def weights(self, user: GroupKey, moment: Moment, forecasts: Forecasts) -> list[float]:
        """Return the weight of each of these forecasts' votes, in their order, 1 for the one expected to be best.

        Each starts with one loss of one half.
        """
        site, known = self._site[moment].of_groups, self.users.get(user)
        own = None if known is None else known.faded[moment].of_groups
        expected: list[float] = []
        for number, _ in forecasts:
            n, a, b, c, d = site[number]
            n += 1.0
            a, b, c, d = (a + 0.5) / n, (b + 0.5) / n, (c + 0.5) / n, (d + 0.5) / n
            if own is not None:
                n, e, f, g, h = own[number]
                n += PRIOR
                a, b, c, d = (e + PRIOR * a) / n, (f + PRIOR * b) / n, (g + PRIOR * c) / n, (h + PRIOR * d) / n
            expected += (a, b, c, d)
        least = min(expected)
        return [exp(TRUST * (least - each)) for each in expected]

    def learn(
        self,
        user: GroupKey,
        value: float,
        at_submission: Forecasts,
        at_start: Forecasts,
        answered: float | None,
        hit: bool | None,
    ) -> None:
        """Learn the losses of each candidate at submission and at start, and that of the value ``answered``."""
        losses = self.users.to_learn(user)
        first = errors = _errors(at_submission, value)
        if at_start is not at_submission:
            errors = _errors(at_start, value)
        for of_moments in (self._site, losses.faded):
            of_moments["submission"].score(first)
            of_moments["start"].score(errors)
        accuracies = losses.accuracies
        for number, (e, f, g, h) in first:
            a, b, c, d = accuracies[number]
            accuracies[number] = [a + (1.0 - e), b + (1.0 - f), c + (1.0 - g), d + (1.0 - h)]
        losses.jobs += 1
        losses.answered += 1.0 if answered is None else capped_error(answered, value)
        if hit is not None:
            losses.hits.score(hit)


def _errors(forecasts: Forecasts, actual: float) -> Forecasts:
    """Return the ``capped_error`` of each forecast."""
    # Most candidates forecast the same few values.
    different = set(chain.from_iterable([of_group for _, of_group in forecasts]))
    error = {value: capped_error(value, actual) for value in different}
    return [(number, (error[a], error[b], error[c], error[d])) for number, (a, b, c, d) in forecasts]


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


FIRST_PRICE = 1.5  # log price at the start, for USUAL failures
STEEPNESS = 2.0  # log price added at the start for each e-fold fewer failures
LOWEST = -4.0  # log price; lower limit, since a lower price has no effect and recovers slowly
HIGHEST = 8.0  # log price; upper limit
PACE = 0.008  # log price per failure; a slow step, since failures come in bursts
HASTE = 5.7  # factor; the first jobs move the price up to 1 + HASTE times faster
SETTLED = 200.0  # jobs after which the haste has halved
SURPLUS = 5.0  # jobs; beyond this many missing failures the price falls faster
FALL = 5.0  # factor on its speed
USUAL = 0.05  # share of jobs that fail for which FIRST_PRICE applies


class FailurePrice(Stored):
    """A price per failed job in units of the site's mean job.

    It rises with every failure and falls a little with every success. In the long run the share of failures is the
    chosen one, and they occur where avoiding them would waste the most.
    """

    kept = ("_coverage", "_log_price", "_reserved", "_covered")

    def __init__(self, coverage: float) -> None:
        self._coverage = coverage
        self._log_price = _first_price(coverage)
        self._reserved = 0
        self._covered = 0

    def mean_jobs(self) -> float:
        """Return the price, in mean jobs."""
        return exp(self._log_price)

    def score(self, *, failed: bool) -> None:
        """Learn whether a reservation failed."""
        self._reserved += 1
        self._covered += not failed
        pace = PACE * (1.0 + HASTE / (1.0 + self._reserved / SETTLED))
        if self._coverage * self._reserved - self._covered < -SURPLUS:
            pace *= FALL
        self._log_price += pace * (failed - (1.0 - self._coverage))
        self._log_price = min(HIGHEST, max(LOWEST, self._log_price))

    def load(self, state: Sequence[Any]) -> None:
        """Restore ``state()``; after a change of the coverage, start from a price for the new one."""
        coverage = self._coverage
        super().load(state)
        if coverage != self._coverage:
            self._log_price += _first_price(coverage) - _first_price(self._coverage)
            self._coverage = coverage


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(USUAL / (1.0 - coverage))


class Held(Stored):
    """Both coverages of the jobs that had a bound.

    Bounds that let expensive jobs fail have a high coverage by jobs and a low one by value x seconds.
    """

    kept = ("jobs", "held", "used", "used_held")

    def __init__(self) -> None:
        self.jobs = 0
        self.held = 0
        self.used = 0.0  # value x seconds
        self.used_held = 0.0

    def score(self, bound: float | None, value: float, seconds: float) -> None:
        """Count a job that used ``value`` for ``seconds``; ignore it without a bound."""
        if bound is None:
            return
        used = min(value * seconds, LARGEST)
        self.jobs += 1
        self.used = min(self.used + used, LARGEST)
        if value <= bound:
            self.held += 1
            self.used_held = min(self.used_held + used, LARGEST)

    @property
    def coverage(self) -> float | None:
        """Return the share of jobs within their bound; None before the first."""
        return self.held / self.jobs if self.jobs else None

    @property
    def cost_coverage(self) -> float | None:
        """Return the same weighted by value x seconds; None while nothing was used."""
        return self.used_held / self.used if self.used else None


class Calibration(Stored):
    """Price of failures, correction of probabilities, and coverage, for answers at submission or at start.

    The start has its own calibration: jobs that ended meanwhile make answers better, so the price from submissions
    would hold more than the chosen share. Every job is scored at both, so both have the same evidence.
    """

    kept = ("price", "exceeding", "held")

    def __init__(self, coverage: float) -> None:
        self.price = FailurePrice(coverage)
        self.exceeding = Correction(SCARCE)
        self.held = Held()

    def learn(self, bound: float | None, stated: float | None, value: float, seconds: float, weight: float) -> None:
        """Compare the use of a job with its ``bound``, and with the ``stated`` probability of more than that."""
        if bound is not None:
            self._score(stated, value > bound, weight)
            self.held.score(bound, value, seconds)

    def learn_lower_bound(self, bound: float | None, stated: float | None, value: float) -> None:
        """Learn that a job needed more than ``value``; ignore it if the bound is above that, since it may have held."""
        if bound is not None and value >= bound:
            self._score(stated, True, 1.0)

    def _score(self, stated: float | None, failed: bool, weight: float) -> None:
        self.price.score(failed=failed)
        if stated is not None:
            self.exceeding.score(stated, failed, weight)


NEARLY_ALL = 0.97  # share of its limit last measured for a job that was killed for exceeding it


class NearLimit(Stored):
    """Corrects the predicted share of jobs near their limit that run out."""

    kept = ("correction",)

    def __init__(self) -> None:
        self.correction = Correction(TENTHS)

    def learn(self, request: float | None, value: float, stated: float | None, all_of: float, weight: float) -> None:
        """Learn from a job that used ``value``; it ran out if that is at least the share ``all_of`` of its request.

        Jobs that did not come near it are ignored.
        """
        if request is not None and stated is not None and value >= NEAR_LIMIT * request:
            self.correction.score(stated, value >= all_of * request, weight)
