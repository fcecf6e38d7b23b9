"""How much to reserve, so that a chosen share of jobs fits and little is wasted."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf, log
from operator import mul
from typing import Any, Literal, NamedTuple, Self

from .forecasters import LARGEST
from .prospect import Prospect
from .reservations import wasted

Objective = Literal["cost", "per-job"]
OBJECTIVES: tuple[Objective, ...] = ("cost", "per-job")

Basis = Literal["quantile", "largest seen", "request"]
"""What a bound rests on: the distribution of values; the largest value seen, with a margin; the job's own request."""

BASES: tuple[Basis, ...] = ("quantile", "largest seen", "request")

SPREAD = ((1.0, 0.85), (1.02, 0.09), (1.12, 0.06))
"""Where a job may lie that goes to a known place: just there, or a little above."""

MEAN_SPREAD = sum(up * share for up, share in SPREAD)
MEAN_SQUARE_SPREAD = sum(up * up * share for up, share in SPREAD)

BEYOND = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
"""Reservations considered above everything seen, times the largest."""

FAINT = 2e-3
"""Places less likely than this are left out."""

RETRIED = 2.0 / log(2.0) - 1.0
"""A job that needs y and is tried with b, 2 b, 4 b .. until it fits holds 2 / ln 2 y - b idly, if y may be anything."""

REPEAT = 1.5
"""What a failed attempt with b costs, times b, where nothing is known of how much more is needed."""

PACE = 0.003
"""How fast the price of a failure follows the failures observed: slowly, since failures come in bursts."""

HASTE = 5.7
SETTLED = 200
"""The first jobs move the price up to 1 + HASTE times faster; after SETTLED of them half of the haste is gone."""

SURPLUS = 20.0
FALL = 5.0
"""While a site has had more than SURPLUS failures too few, its price moves FALL times as fast."""

FIRST_PRICE = 2.0
STEEPNESS = 2.0
"""The logarithm of the price starts at FIRST_PRICE for 5 % of failures, and STEEPNESS higher for each e-th of them."""

LOWEST, HIGHEST = -4.0, 8.0
"""Limits of the logarithm of the price: beyond them it changes nothing, and would take long to come back."""

SLACK = 0.03
HEADROOM = 50
"""A site is `young` while fewer than HEADROOM more failures would bring the share held so far SLACK under the target.
No job is then reserved below its own quantile, whatever that wastes: one burst may not use up what is allowed to fail.
"""

CAUTION = 0.05
"""How fast the share that may fail shrinks, per job, with each failure too many of a young site or after a burst."""

BURST = 50.0
"""Failures too many of a user, after which the user's next jobs are reserved up to twice as much."""

UNKNOWN = 500
"""Reservations before which one piece of evidence of a user counts for nothing beside the largest value seen."""

DEBT = 1.0
"""How fast the share that may fail shrinks, per job, with each failure too many of the user (objective per-job)."""

CLASS_DEBT = 0.1
"""The same for each failure too many among jobs of much the same forecast."""

RECENT = 2000
"""Jobs over which the waste of requests and of bounds is compared."""

CREDIT = 5.0
"""Failures too few that are remembered of a user or a class: with more, a change would be met too late."""


class Bound(NamedTuple):
    """`value` to reserve, the estimated probability that the job `exceeds` it, and on what it rests.

    `learned` is what would be reserved if requests were not the cheaper choice; where they are not, it is the value.
    """

    value: float
    exceeds: float
    basis: Basis
    learned: float


class Case(NamedTuple):
    """What is known of a job beside its prospect.

    `seconds` how long it may hold the reservation, None where unknown; `above` the highest reservation known to have
    failed; `request` what the user asks for and whether that `is_limit`; `own` the evidence there is of the user's
    jobs; `is_new` whether none of its kind has ended; `largest` the largest value seen of jobs like it,
    `largest_of_all` of any on the site; `owed` the user's failures too many, `forecast` what the job is expected to
    use: both tell how its like has fared.
    """

    seconds: float | None = None
    above: float = 0.0
    request: float | None = None
    is_limit: bool = False
    own: int = 1
    is_new: bool = False
    largest: float = inf
    largest_of_all: float = 0.0
    owed: float = 0.0
    forecast: float | None = None


class Bounds:
    """Reserves where the expected waste and the price of a failure balance; calibrates the price on line.

    Of the candidates b, the one with the least

        E[b - y; y <= b] + E[RETRIED y - b; y > b] + P(y > b) price

    is reserved: what lies idle, what a failed attempt and its repetitions waste, and a price per failed job in units
    of the site's mean job, in value x seconds. That price rises a little with every failure and falls with every
    success, so that in the long run the failures are the share that was chosen, spent where waiting for certainty
    would waste the most. Cheap jobs are thus held safer than dear ones. Where even at a price of nothing fewer fail,
    because a failure wastes more than it saves, fewer fail.

    While a site is `young`, and always with the objective `per-job`, a job gets at least the quantile of its own
    distribution, which with few pieces of evidence lies above the largest value seen. What may fail adapts to how the
    site has fared; with `per-job`, to how the user's jobs have, and those of much the same forecast (after adaptive
    conformal inference, Gibbs and Candès 2021). Where requests have wasted less than bounds of late, the answer is the
    request.
    """

    def __init__(self, coverage: float = 0.95, objective: Objective = "cost", *, of_time: bool = False) -> None:
        """`of_time`: the values are the jobs' own lengths, so that one that lasts long also wastes for long."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: it is a share of jobs, above 0 and below 1")
        if objective not in OBJECTIVES:
            raise ValueError(f"objective is {objective!r}: choose from {', '.join(OBJECTIVES)}")
        self.coverage = coverage
        self.objective = objective
        self._of_time = of_time
        self._log_price = _first_price(coverage)
        self._mean_job = 0.0  # value x seconds
        self._n = 0
        self._mean_seconds = 1.0  # until a job tells
        self._timed = 0
        self._reserved = 0
        self._covered = 0
        self._debts: dict[str, float] = {}
        self._wasted = 0.0  # by what was learned, and by the requests of the same jobs; value x seconds, faded
        self._wasted_by_requests = 0.0

    def reserve(self, prospect: Prospect, case: Case) -> Bound:
        """What to reserve for a job."""
        request = case.request
        if not prospect.places:  # nothing is known but the request
            value = request or 0.0
            return Bound(value, 0.0 if case.is_limit else 1.0 - self.coverage, "request", value)
        ceiling = request if request is not None and case.is_limit else inf
        steps = [
            (place * up, mass * share)
            for place, mass in prospect.places.items()
            if mass > FAINT
            for up, share in SPREAD
        ]
        steps.sort()
        careful = self.objective == "per-job"
        if careful:
            value, exceeds = self._quantile(steps, prospect.beyond, self._debt(case))
        else:
            value, exceeds = self._cheapest(steps, prospect, case, ceiling)
            if self.young:
                value, exceeds = max((value, exceeds), self._quantile(steps, prospect.beyond, 0.0))
            too_many = self._excess if self.young else case.owed - BURST
            if too_many > 0.0:  # at most what the repetition of a failed attempt would hold
                safe = self._quantile(steps, prospect.beyond, CAUTION * too_many)
                value, exceeds = max((value, exceeds), min((2.0 * value, exceeds), safe))
        if request is None and case.own < 2 and (careful or self._reserved < UNKNOWN) and value < case.largest_of_all:
            value, exceeds = case.largest_of_all, prospect.beyond
        stranger = not case.own or (careful and case.is_new)
        if request is not None and (value >= ceiling or (value < request and stranger)):
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        if value <= case.above:
            value, exceeds = case.above * BEYOND[1], prospect.beyond
        learned = min(value, LARGEST)
        if request is not None and value < request and self._wasted_by_requests < self._wasted:
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        basis: Basis = "request" if value == request else "largest seen" if value > case.largest else "quantile"
        return Bound(min(value, LARGEST), min(1.0, max(0.0, exceeds)), basis, learned)

    def _cheapest(
        self, steps: list[tuple[float, float]], prospect: Prospect, case: Case, ceiling: float
    ) -> tuple[float, float]:
        """The step, in order of value, of least expected cost, and the probability of exceeding it."""
        places, unexplained = prospect.places, prospect.beyond
        price = exp(self._log_price) * self._mean_job
        top, highest = max(places), steps[-1][0]
        known = sum(places.values())
        value_held = sum(map(mul, places.values(), places))
        # Mass x seconds, and that x value, of all that is known and of what would fit: what is wasted depends on them.
        held = known if not self._of_time else MEAN_SPREAD * value_held
        if self._of_time:
            used = MEAN_SQUARE_SPREAD * sum([mass * place * place for place, mass in places.items()])
        else:
            used = MEAN_SPREAD * value_held
            price /= case.seconds or self._mean_seconds
        least_share = 0.25 * known
        fits = fits_held = fits_used = 0.0
        least = inf
        chosen = (highest, unexplained)
        for step, mass in (*steps, *[(highest * up, 0.0) for up in BEYOND]):
            fits += mass
            length = step if self._of_time else 1.0
            fits_held += mass * length
            fits_used += mass * length * step
            if fits < least_share:  # most would fail: never the least of costs, and not worth working out
                continue
            if step >= ceiling:  # nothing fails there
                if max(0.0, ceiling * held - used) < least and ceiling > case.above:
                    chosen = (ceiling, 0.0)
                break
            beyond = unexplained if step <= top else unexplained * top / step
            wasted = RETRIED * (used - fits_used) + step * (REPEAT * beyond * length - (held - fits_held))
            cost = step * fits_held - fits_used + wasted + price * (beyond + known - fits)
            if cost < least and step > case.above:
                least = cost
                chosen = (step, beyond + known - fits)
        return chosen

    def _quantile(self, steps: list[tuple[float, float]], beyond: float, debt: float) -> tuple[float, float]:
        """The least step that no more than the share that may fail exceeds; beyond all where none is that safe.

        By how much beyond: what exceeds a place falls off at least as fast as the place grows.
        """
        may_fail = (1.0 - self.coverage) * exp(-debt)
        exceeds = beyond
        if exceeds > may_fail:
            return steps[-1][0] * min(BEYOND[-1], exceeds / may_fail), exceeds
        for step, mass in reversed(steps):
            if exceeds + mass > may_fail:
                return step, exceeds
            exceeds += mass
        return steps[0][0], exceeds

    def _debt(self, case: Case) -> float:
        """By how much the share that may fail of such a job is to shrink, in logarithms (objective per-job)."""
        of_class = self._debts.get(_class(case.forecast), 0.0)
        return DEBT * max(0.0, case.owed) + CLASS_DEBT * max(0.0, of_class)

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
        """Take in what a job needed for which `reserved` had been the answer (None: there had been none).

        `learned` as in `Bound`, where it is not the answer.
        """
        self._n += 1
        if seconds:
            self._timed += 1
            self._mean_seconds += (seconds - self._mean_seconds) / min(self._timed, 5000)
        job = min(value * (seconds or self._mean_seconds), LARGEST)
        self._mean_job += (job - self._mean_job) / min(self._n, 5000)
        if reserved is None:
            return
        failed = value > reserved
        self._reserved += 1
        self._covered += not failed
        learned = reserved if learned is None else learned
        if request is not None:
            length = value if self._of_time else seconds or self._mean_seconds
            fade = 1.0 - 1.0 / RECENT
            self._wasted = min(fade * self._wasted + wasted(learned, value) * length, LARGEST)
            self._wasted_by_requests = min(fade * self._wasted_by_requests + wasted(request, value) * length, LARGEST)
        pace = PACE * (1.0 + HASTE / (1.0 + self._reserved / SETTLED))
        if self._excess < -SURPLUS:
            pace *= FALL
        self._log_price += pace * ((value > learned) - (1.0 - self.coverage))
        self._log_price = min(HIGHEST, max(LOWEST, self._log_price))
        if self.objective == "per-job":
            name = _class(forecast)
            self._debts[name] = self.owed(self._debts.get(name, 0.0), failed)

    def owed(self, debt: float, failed: bool) -> float:
        """The failures too many, below 0 too few, after one more job; few are forgotten soon."""
        return max(-CREDIT, debt + failed - (1.0 - self.coverage))

    @property
    def _excess(self) -> float:
        """Failures too many so far, below 0 too few."""
        return self.coverage * self._reserved - self._covered

    @property
    def young(self) -> bool:
        """Whether one more burst of failures could use up what is allowed to fail."""
        failures = self._reserved - self._covered
        return (1.0 - self.coverage + SLACK) * self._reserved - failures < HEADROOM

    @property
    def observed_coverage(self) -> float | None:
        """Share of reservations that were enough; None while there were none."""
        return self._covered / self._reserved if self._reserved else None

    def state(self) -> dict[str, Any]:
        """Everything known, as values that JSON can carry."""
        return {
            "coverage": self.coverage,
            "objective": self.objective,
            "log_price": self._log_price,
            "mean_job": self._mean_job,
            "n": self._n,
            "mean_seconds": self._mean_seconds,
            "timed": self._timed,
            "reserved": self._reserved,
            "covered": self._covered,
            "debts": dict(self._debts),
            "wasted": [self._wasted, self._wasted_by_requests],
        }

    @classmethod
    def from_state(cls, coverage: float, state: Mapping[str, Any], *, of_time: bool = False) -> Self:
        """The bounds whose `state()` this was, exactly; where another coverage is now chosen, at a price for that."""
        restored = cls(coverage, state["objective"], of_time=of_time)
        restored._log_price = float(state["log_price"])
        if state["coverage"] != coverage:
            restored._log_price += _first_price(coverage) - _first_price(state["coverage"])
        restored._mean_job = float(state["mean_job"])
        restored._n = int(state["n"])
        restored._mean_seconds = float(state["mean_seconds"])
        restored._timed = int(state["timed"])
        restored._reserved = int(state["reserved"])
        restored._covered = int(state["covered"])
        restored._debts = dict(state["debts"])
        restored._wasted, restored._wasted_by_requests = state["wasted"]
        return restored


def _first_price(coverage: float) -> float:
    return FIRST_PRICE + STEEPNESS * log(0.05 / (1.0 - coverage))


def _class(forecast: float | None) -> str:
    """Jobs of much the same forecast, within a factor of e^.5; text, since JSON has no other keys."""
    if forecast is None:
        return "none"
    return str(int(2.0 * log(forecast))) if forecast > 1e-9 else "zero"
