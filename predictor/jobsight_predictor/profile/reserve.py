"""How much to reserve, so that a chosen share of jobs fits with little waste, or with the least waste of all."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log
from typing import Any, Literal, NamedTuple, Self

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.question import OBJECTIVES, Objective

from .prospect import Prospect
from .steps import SPREAD, cheapest, quantile, steps_of

FIRST_PRICE = 1.5  # log price; where the price starts for USUAL failures
STEEPNESS = 2.0  # log price; how much higher it starts for each e-th of these failures
LOWEST = -4.0  # log price; lower limit: below it, the price has no effect and takes long to recover
HIGHEST = 8.0  # log price; upper limit
PACE = 0.008  # log price a failure; how fast the price follows failures: slowly, since they come in bursts
HASTE = 5.7  # factor; the first jobs move the price up to 1 + HASTE times faster
SETTLED = 200.0  # jobs; after this many, half of the haste is gone
SURPLUS = 5.0  # jobs; the price falls faster while more failures than this are missing
FALL = 5.0  # factor; how much faster
USUAL = 0.05  # share; of jobs that fail, to which FIRST_PRICE applies
MEAN_OF = 5000  # jobs; memory of the site's mean job and mean requested time


class MeanJob:
    """The site's mean job, in value x seconds, and how long jobs request to run."""

    def __init__(self) -> None:
        self.value_seconds = 0.0
        self._n = 0
        self._mean_seconds = 1.0  # until the first job
        self._timed = 0

    def seconds(self, seconds: float | None) -> float:
        """How long a job may hold its reservation: the time it requests, or that of the mean job."""
        return seconds or self._mean_seconds

    def learn(self, value: float, seconds: float | None) -> None:
        """Learn what a job used."""
        self._n += 1
        if seconds:
            self._timed += 1
            self._mean_seconds += (seconds - self._mean_seconds) / min(self._timed, MEAN_OF)
        job = min(value * self.seconds(seconds), LARGEST)
        self.value_seconds += (job - self.value_seconds) / min(self._n, MEAN_OF)

    def state(self) -> list[float]:
        """The whole state, as JSON values."""
        return [self.value_seconds, self._n, self._mean_seconds, self._timed]

    def load(self, state: Sequence[float]) -> None:
        """Take over ``state()``."""
        self.value_seconds, n, self._mean_seconds, timed = state
        self._n, self._timed = int(n), int(timed)


class FailurePrice:
    """A price per failed job in units of the site's mean job.

    It rises a little with every failure and falls with every success, so that in the long run failures are the chosen
    share, spent where waiting for certainty would waste the most.
    """

    def __init__(self, coverage: float) -> None:
        self._coverage = coverage
        self._log_price = _first_price(coverage)
        self._reserved = 0
        self._covered = 0

    def mean_jobs(self) -> float:
        """The price, in mean jobs."""
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

    def state(self) -> list[float]:
        """The whole state, as JSON values."""
        return [self._coverage, self._log_price, self._reserved, self._covered]

    def load(self, state: Sequence[float]) -> None:
        """Take over ``state()``; if the coverage has been changed since, with a price for the new one."""
        coverage, self._log_price, reserved, covered = state
        if coverage != self._coverage:
            self._log_price += _first_price(self._coverage) - _first_price(coverage)
        self._reserved, self._covered = int(reserved), int(covered)


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(USUAL / (1.0 - coverage))


FEW = 5  # jobs; of an application, before its next ones may be reserved below their own quantile
CAUTION = 0.03  # share; that may fail of them, at most: they come in bursts, and fail together

Basis = Literal["quantile", "largest seen", "request", "facts"]
"""What a bound rests on: the distribution of values; the largest value seen or reservation that ran out, with a margin;
the job's own request; jobs with similar facts."""

BASES: tuple[Basis, ...] = ("quantile", "largest seen", "request", "facts")


class Bound(NamedTuple):
    """``value`` to reserve, the estimated ``exceed_probability`` that the job needs more, and the basis."""

    value: float
    exceed_probability: float
    basis: Basis


class Case(NamedTuple):
    """What is known about a job besides its prospect.

    ``seconds`` how long it may hold the reservation, None if unknown; ``request`` what the user asks for and whether
    that ``is_limit``; ``ended`` jobs of its application, ``own`` evidence from the user's jobs; ``shortfall`` the
    probability that it needs more than lately was too little, where its distribution did not explain that; ``largest``
    the largest value seen of jobs like it.
    """

    seconds: float | None = None
    request: float | None = None
    is_limit: bool = False
    ended: int = 0
    own: int = 1
    shortfall: float = 0.0
    largest: float = inf


class Bounds:
    """Reserves where the expected waste and the price of a failure balance (``steps.cheapest``).

    With the objective ``coverage``, the price follows the site's failures (``FailurePrice``): cheap jobs are safer than
    expensive ones, and the chosen share fits in the long run. With ``waste`` it is zero: an attempt that fails costs
    what it held, and nothing else. Until ``FEW`` jobs of an application have ended, and with ``coverage`` also while
    they lately needed more than they had, a job gets at least the quantile of its own distribution,
    which with few pieces of evidence lies above the largest value seen.

    Raises:
        ValueError: ``coverage`` is not a share of jobs, or the objective is unknown.
    """

    def __init__(self, coverage: float = 0.95, objective: Objective = "coverage", *, of_time: bool = False) -> None:
        """``of_time``: the values are the jobs' own lengths, so a job that lasts long also wastes for long."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: it is a share of jobs, above 0 and below 1")
        if objective not in OBJECTIVES:
            raise ValueError(f"objective is {objective!r}: choose from {', '.join(OBJECTIVES)}")
        self.coverage = coverage
        self.objective = objective
        self._of_time = of_time
        self.mean_job = MeanJob()

    def reserve(self, prospect: Prospect, case: Case, price_mean_jobs: float) -> Bound:
        """What to reserve for a job, where a failure costs this many mean jobs besides its waste."""
        request = case.request
        may_fail = 1.0 - self.coverage
        if not prospect.places:  # nothing is known but the request
            return Bound(request or 0.0, 0.0 if case.is_limit else may_fail, "request")
        ceiling = request if request is not None and case.is_limit else inf
        steps = steps_of(prospect)
        price = 0.0
        if self.objective == "coverage":
            price = price_mean_jobs * self.mean_job.value_seconds
            if not self._of_time:
                price /= self.mean_job.seconds(case.seconds)
        value, exceeds = cheapest(steps, prospect, ceiling, price, of_time=self._of_time)
        is_new = case.ended < FEW and case.is_limit
        if is_new or (self.objective == "coverage" and case.shortfall > may_fail):
            cautious = quantile(steps, prospect.beyond, min(may_fail, CAUTION) if is_new else may_fail)
            value, exceeds = max((value, exceeds), cautious)
        if request is not None and (value >= ceiling or (value < request and not case.own)):
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        seen = case.largest * SPREAD[-1][0]
        basis: Basis = "request" if value == request else "largest seen" if value > seen else "quantile"
        return Bound(min(value, LARGEST), min(1.0, max(0.0, exceeds)), basis)

    def can_fail(self, request: float, seconds: float | None, price_mean_jobs: float) -> bool:
        """Whether a failure is cheaper than its price, of a job that may hold ``request`` for ``seconds``.

        With the objective ``waste``, which counts no failures, never.
        """
        if self.objective != "coverage":
            return False
        job = request * (request if self._of_time else self.mean_job.seconds(seconds))
        return job * price_mean_jobs < self.mean_job.value_seconds

    def learn(self, value: float, seconds: float | None = None) -> None:
        """Learn what a job needed that may have run for ``seconds``."""
        self.mean_job.learn(value, seconds or (value if self._of_time else None))

    def failure(self) -> float:
        """What an attempt that fails is taken to cost besides its waste: a mean job, in value x seconds; 0 with the
        objective ``waste``."""
        return self.mean_job.value_seconds if self.objective == "coverage" else 0.0


class Held:
    """Both coverages of the jobs that had a bound.

    Bounds that let expensive jobs fail look good by jobs and bad by value x seconds, and both matter.
    """

    def __init__(self) -> None:
        self.jobs = 0
        self.held = 0
        self.used = 0.0  # value x seconds
        self.used_held = 0.0

    def score(self, bound: float | None, value: float, seconds: float) -> None:
        """Count what a job used for ``seconds``; one without a bound does not count."""
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
        """Share of jobs within their bound; None before the first."""
        return self.held / self.jobs if self.jobs else None

    @property
    def cost_coverage(self) -> float | None:
        """The same weighted by value x seconds; None while nothing was used."""
        return self.used_held / self.used if self.used else None

    def state(self) -> list[Any]:
        """The whole state, as JSON values."""
        return [self.jobs, self.held, self.used, self.used_held]

    @classmethod
    def from_state(cls, state: list[Any]) -> Self:
        """Restores exactly the one whose ``state()`` this was."""
        restored = cls()
        restored.jobs, restored.held, restored.used, restored.used_held = state
        return restored
