"""Calibration by outcomes: the price of failures, corrected probabilities, and the coverage achieved."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING, Any

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.question import Moment

from .parts import Stored
from .probability import SCARCE, TENTHS, Correction
from .prospect import NEAR_LIMIT

if TYPE_CHECKING:
    from .forecast import AtStart, FinishedJob, PendingForecast

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

    def __init__(self, coverage: float, moment: Moment) -> None:
        self._moment = moment
        self.price = FailurePrice(coverage)
        self.exceeding = Correction(SCARCE)
        self.held = Held()

    def score(self, job: FinishedJob) -> None:
        """Compare the job's use with its recommendation."""
        reserved = job.forecast if self._moment == "submission" else job.at_start
        if reserved.bound is None:
            return
        failed = job.value > reserved.bound
        self.price.score(failed=failed)
        self.held.score(reserved.bound, job.value, job.seconds)
        if reserved.stated_exceed is not None:
            self.exceeding.score(reserved.stated_exceed, failed, job.weight)

    def score_lower_bound(self, reserved: AtStart | PendingForecast, value: float) -> None:
        """Learn that a job needed more than ``value``; ignore it if the bound is above that, since it may have held."""
        if reserved.bound is not None and value >= reserved.bound:
            self.price.score(failed=True)
            if reserved.stated_exceed is not None:
                self.exceeding.score(reserved.stated_exceed, True, 1.0)


NEARLY_ALL = 0.97  # share of its limit last measured for a job that was killed for exceeding it


class NearLimit(Stored):
    """Corrects the predicted share of jobs near their limit that run out."""

    kept = ("correction",)

    def __init__(self) -> None:
        self.correction = Correction(TENTHS)

    def score(self, job: FinishedJob) -> None:
        """Learn whether a job that came near its limit ran out of it."""
        self.learn(job.keys.request, job.value, job.at_start.out_near_limit, 1.0, job.weight)

    def learn(self, request: float | None, value: float, stated: float | None, all_of: float, weight: float) -> None:
        """Learn from a job that used ``value``; it ran out if that is at least the share ``all_of`` of its request."""
        if request is not None and stated is not None and value >= NEAR_LIMIT * request:
            self.correction.score(stated, value >= all_of * request, weight)
