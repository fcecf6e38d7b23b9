"""How much to reserve, so that a chosen share of jobs fits with little waste."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from typing import Any, Self

from jobsight_predictor.forecasters import LARGEST

from .bound import OBJECTIVES, Basis, Bound, Case, Objective
from .price import FailurePrice
from .prospect import Prospect
from .retries import wasted
from .steps import SPREAD, Step, cheapest, quantile, steps_of

SLACK = 0.03  # share; a site is young while HEADROOM failures could bring its coverage this far below the target
HEADROOM = 50.0  # jobs; no job of a young site gets less than its own quantile, or a burst might use up all failures
CAUTION = 0.05  # log share a failure; how fast the share that may fail shrinks, on a young site or after a burst
BURST = 50.0  # jobs; excess failures of a user, after which the user's next jobs are reserved with caution
CAUTIOUS = 2.0  # factor; caution raises a reservation by at most this, like repeating a failed attempt
UNKNOWN = 500  # jobs; with fewer reservations, a user's single piece of evidence counts for nothing
DEBT = 1.0  # log share a failure; how fast the share that may fail shrinks with the user's failures (per-job)
CLASS_DEBT = 0.1  # log share a failure; the same with the failures of jobs with a similar forecast
CLASSES = 2.0  # classes per factor of e; what counts as a similar forecast
CREDIT = 5.0  # jobs; missing failures that are remembered: with more, the reaction to a change would be too late
RECENT = 2000.0  # jobs; memory over which the waste of requests and bounds is compared


class Bounds:
    """Reserves where the expected waste and the price of a failure balance (``steps.cheapest``, ``FailurePrice``).

    Cheap jobs are thus safer than expensive ones. If fewer than allowed fail even at a price of zero, because a failure
    wastes more than it saves, then fewer fail.

    While a site is ``young``, and always with the objective ``per-job``, a job gets at least the quantile of its own
    distribution, which with few pieces of evidence lies above the largest value seen. The share that may fail adapts to
    the site's failures; with ``per-job``, to those of the user's jobs and of jobs with a similar forecast (after
    adaptive conformal inference, Gibbs and Candès 2021). If requests have recently wasted less than bounds, the answer
    is the request.

    Raises:
        ValueError: ``coverage`` is not a share of jobs, or the objective is unknown.
    """

    def __init__(self, coverage: float = 0.95, objective: Objective = "cost", *, of_time: bool = False) -> None:
        """``of_time``: the values are the jobs' own lengths, so a job that lasts long also wastes for long."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: it is a share of jobs, above 0 and below 1")
        if objective not in OBJECTIVES:
            raise ValueError(f"objective is {objective!r}: choose from {', '.join(OBJECTIVES)}")
        self.coverage = coverage
        self.objective = objective
        self._of_time = of_time
        self._price = FailurePrice(coverage)
        self._reserved = 0
        self._covered = 0
        self._debts: dict[str, float] = {}
        self._wasted = 0.0  # by what was learned, and by the requests of the same jobs; value x seconds, faded
        self._wasted_by_requests = 0.0

    def reserve(self, prospect: Prospect, case: Case) -> Bound:
        """What to reserve for a job."""
        request = case.request
        if not prospect.places:  # nothing is known but the request and what ran out
            value = request or 0.0
            if value < case.least or not value:
                value = case.least
                return Bound(value, 1.0 - self.coverage, "largest seen", value)
            return Bound(value, 0.0 if case.is_limit else 1.0 - self.coverage, "request", value)
        ceiling = request if request is not None and case.is_limit else inf
        steps = steps_of(prospect)
        careful = self.objective == "per-job"
        if careful:
            value, exceeds = self._quantile(steps, prospect, self._debt(case))
        else:
            price = self._price.value_seconds()
            if not self._of_time:
                price /= self._price.seconds(case.seconds)
            value, exceeds = cheapest(steps, prospect, ceiling, price, of_time=self._of_time)
            if self.young:
                value, exceeds = max((value, exceeds), self._quantile(steps, prospect, 0.0))
            too_many = self._excess if self.young else case.owed - BURST
            if too_many > 0.0:
                safe = self._quantile(steps, prospect, CAUTION * too_many)
                value, exceeds = max((value, exceeds), min((CAUTIOUS * value, exceeds), safe))
        if request is None and case.own < 2 and (careful or self._reserved < UNKNOWN) and value < case.largest_of_all:
            value, exceeds = case.largest_of_all, prospect.beyond
        stranger = not case.own or (careful and case.is_new)
        if request is not None and (value >= ceiling or (value < request and stranger)):
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        if value < case.least:
            value = case.least
            exceeds = prospect.beyond + sum([mass for place, mass in prospect.places.items() if place > value])
        learned = min(value, LARGEST)
        if request is not None and value < request and self._wasted_by_requests < self._wasted:
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        seen = case.largest * SPREAD[-1][0]
        basis: Basis = "request" if value == request else "largest seen" if value > seen else "quantile"
        return Bound(min(value, LARGEST), min(1.0, max(0.0, exceeds)), basis, learned)

    def score(
        self,
        reserved: float | None,
        value: float,
        seconds: float | None = None,
        forecast: float | None = None,
        *,
        learned: float | None = None,
        request: float | None = None,
    ) -> None:
        """Learn what a job needed for which ``reserved`` had been the answer (None: there was none).

        ``learned`` as in ``Bound``, where it is not the answer.
        """
        self._price.learn(value, seconds)
        if reserved is None:
            return
        failed = value > reserved
        self._reserved += 1
        self._covered += not failed
        learned = reserved if learned is None else learned
        if request is not None:
            length = value if self._of_time else self._price.seconds(seconds)
            fade = 1.0 - 1.0 / RECENT
            self._wasted = min(fade * self._wasted + wasted(learned, value) * length, LARGEST)
            self._wasted_by_requests = min(fade * self._wasted_by_requests + wasted(request, value) * length, LARGEST)
        self._price.adapt(value > learned, self._reserved, self._excess)
        if self.objective == "per-job":
            name = _class(forecast)
            self._debts[name] = self.owed(self._debts.get(name, 0.0), failed)

    def owed(self, debt: float, failed: bool) -> float:
        """The excess failures after one more job, below 0 if too few; missing ones are soon forgotten."""
        return max(-CREDIT, debt + failed - (1.0 - self.coverage))

    @property
    def young(self) -> bool:
        """Whether one more burst of failures could use up the allowed failures."""
        failures = self._reserved - self._covered
        return (1.0 - self.coverage + SLACK) * self._reserved - failures < HEADROOM

    @property
    def _excess(self) -> float:
        """Excess failures so far, below 0 if too few."""
        return self.coverage * self._reserved - self._covered

    def _quantile(self, steps: list[Step], prospect: Prospect, debt: float) -> tuple[float, float]:
        """``steps.quantile`` for the share that may fail, which shrinks by e for each ``debt``."""
        return quantile(steps, prospect.beyond, (1.0 - self.coverage) * exp(-debt))

    def _debt(self, case: Case) -> float:
        """By how much to shrink the share of such jobs that may fail, in logarithms (objective per-job)."""
        of_class = self._debts.get(_class(case.forecast), 0.0)
        return DEBT * max(0.0, case.owed) + CLASS_DEBT * max(0.0, of_class)

    def state(self) -> dict[str, Any]:
        """The whole state, as JSON values."""
        return {
            "objective": self.objective,
            "price": self._price.state(),
            "reserved": self._reserved,
            "covered": self._covered,
            "debts": dict(self._debts),
            "wasted": [self._wasted, self._wasted_by_requests],
        }

    @classmethod
    def from_state(cls, coverage: float, state: Mapping[str, Any], *, of_time: bool = False) -> Self:
        """The bounds whose ``state()`` this was, exactly; if the coverage has been changed since, with a price for the
        new one."""
        restored = cls(coverage, state["objective"], of_time=of_time)
        restored._price = FailurePrice.from_state(coverage, state["price"])
        restored._reserved = int(state["reserved"])
        restored._covered = int(state["covered"])
        restored._debts = dict(state["debts"])
        restored._wasted, restored._wasted_by_requests = state["wasted"]
        return restored


def _class(forecast: float | None) -> str:
    """The class of jobs with a similar forecast; text, since JSON has no other keys."""
    if forecast is None:
        return "none"
    return str(int(CLASSES * log(forecast))) if forecast > 1e-9 else "zero"
