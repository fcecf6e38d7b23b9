"""Reservations: the value of least expected cost, or a quantile; and the next one after a failure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import inf, log
from operator import mul
from typing import Literal, NamedTuple

from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.profile.groups import Stored
from jobsight_predictor.profile.prospect import SPREAD, Prospect, Step
from jobsight_predictor.question import Question

FARTHEST = 4.0  # factor; limit on a quantile, as a multiple of the highest place
LEAST_FIT = 0.25  # share of jobs that fit; lower steps are never the cheapest
CLOSE = 1.05  # factor; least ratio of an attempt to the one before
RETRIES = 10  # doublings after which a job gets exactly its need

MEAN_SPREAD = sum([up * share for up, share in SPREAD])
MEAN_SQUARE_SPREAD = sum([up * up * share for up, share in SPREAD])

RETRIED = 2.0 / log(2.0) - 1.0
"""Waste factor of doubling: a job of need y tried with b, 2 b, 4 b .. wastes 2 / ln 2 y - b on average."""


class Costs(NamedTuple):
    """What the waste of a reservation is computed from, the same at every price.

    ``known`` is the mass of all places, ``top`` the highest. Of needs, ``held`` is the mass x seconds, ``used`` that x
    value; ``fits``, ``fits_held`` and ``fits_used`` are mass and both of those that each of ``amounts`` is enough for.
    """

    known: float
    top: float
    held: float
    used: float
    amounts: Sequence[float]
    fits: Sequence[float]
    fits_held: Sequence[float]
    fits_used: Sequence[float]

    @classmethod
    def of(cls, prospect: Prospect, *, of_time: bool) -> Costs:
        """Return those of a distribution with places, made once."""
        if prospect.costs is None:
            places = prospect.places
            known = sum(places.values())
            held, used = known, MEAN_SPREAD * sum(map(mul, places.values(), places))
            amounts, masses = zip(*prospect.steps, strict=True)
            each_held, each_used = masses, tuple(map(mul, masses, amounts))
            if of_time:
                held, used = used, MEAN_SQUARE_SPREAD * sum([mass * place * place for place, mass in places.items()])
                each_held, each_used = each_used, tuple(map(mul, each_used, amounts))
            fits = [list(accumulate(each)) for each in (masses, each_held, each_used)]
            prospect.costs = cls(known, max(places), held, used, amounts, *fits)
        found: Costs = prospect.costs
        return found


def cheapest(costs: Costs, unexplained: float, ceiling: float, price: float) -> tuple[float, float]:
    """Return (the value of least expected cost, the probability of exceeding it); needs are at most ``ceiling``.

    Among the candidates b, minimises

        E[b - y; y <= b] + E[RETRIED y - b; y > b] + P(y > b) price

    Waste and price are in value, or in value x value if values are times. ``unexplained``: probability of more than all
    places.
    """
    known, top, held, used, amounts, fits, all_held, all_used = costs
    least, chosen = inf, (amounts[-1], unexplained)
    end = bisect_left(amounts, ceiling)
    if end < len(amounts):  # nothing fails at the ceiling
        least, chosen = max(0.0, ceiling * held - used), (ceiling, 0.0)
    for i in range(end - 1, bisect_left(fits, LEAST_FIT * known) - 1, -1):
        step, fits_held, fits_used = amounts[i], all_held[i], all_used[i]
        exceeds = (unexplained if step <= top else unexplained * top / step) + known - fits[i]
        failures = price * exceeds
        if failures > least:  # more jobs exceed a lower step, and waste is not negative
            break
        wasted = RETRIED * (used - fits_used) - step * (held - fits_held)
        cost = step * fits_held - fits_used + wasted + failures
        if cost <= least:
            least, chosen = cost, (step, exceeds)
    return chosen


def quantile(steps: list[Step], beyond: float, may_fail: float) -> tuple[float, float]:
    """Return the lowest step that at most the share ``may_fail`` exceeds; a value beyond all if none is that safe.

    Beyond, the mass above a value is taken to fall at least as fast as the value grows.
    """
    exceeds = beyond
    if exceeds > may_fail:
        # After very many failures may_fail underflows to 0.
        farther = exceeds / may_fail if exceeds < FARTHEST * may_fail else FARTHEST
        return steps[-1][0] * farther, exceeds
    for step, mass in reversed(steps):
        if exceeds + mass > may_fail:
            return step, exceeds
        exceeds += mass
    return steps[0][0], exceeds


NEED_SHARES = (0.5, 0.75, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Shares of jobs for which an answer has the sufficient amount."""


def needs_of(prospect: Prospect | None) -> list[tuple[float, float]]:
    """Return (amount, share of jobs that need more), ascending: the distribution's ``quantile`` of each."""
    if prospect is None or not prospect.places:
        return []
    steps, exceeds = prospect.steps, prospect.beyond
    found: list[tuple[float, float]] = []
    k = len(steps) - 1
    for share in reversed(NEED_SHARES):
        more = 1.0 - share
        if exceeds > more:
            if exceeds < FARTHEST * more:
                found.append((steps[k][0] * exceeds / more, more))
            continue
        while k > 0 and exceeds + steps[k][1] <= more:
            exceeds += steps[k][1]
            k -= 1
        found.append((steps[k][0], more))
    return found[::-1]


def exceeding(prospect: Prospect | None, amount: float) -> float:
    """Return the probability of needing more than this amount; 1 without evidence."""
    if prospect is None or not prospect.places:
        return 1.0
    top = max(prospect.places)
    beyond = prospect.beyond if amount <= top else prospect.beyond * top / amount
    return min(1.0, beyond + sum([mass for step, mass in prospect.steps if step > amount]))


def ladder(prospect: Prospect, bound: float, ceiling: float, *, of_time: bool) -> tuple[float, ...]:
    """Return the reservation of each attempt, ascending, ``bound`` first; needs are at most ``ceiling``.

    The attempts after the bound minimise the expected waste of failed attempts and of the last one, given that the job
    needs more, by dynamic programming: every job that needs more than the attempt before pays for an attempt at ``a``.
    The last is ``ceiling``, or twice the highest place.
    """
    if not prospect.places:
        return (bound,)
    above: dict[float, float] = {}
    for place, mass in prospect.steps:
        if place > CLOSE * bound:
            place = min(place, ceiling)
            above[place] = above.get(place, 0.0) + mass
    top = max([bound, *above])
    last = 2.0 * top if ceiling == inf else max(ceiling, top)
    above[last] = above.get(last, 0.0) + prospect.beyond
    places = list(above)
    return (bound, *_cheapest_rungs(places, [above[place] * (place if of_time else 1.0) for place in places]))


def _cheapest_rungs(places: list[float], masses: list[float]) -> list[float]:
    """Choose the places to try, given their masses; places ascending, the last is always enough."""
    n = len(places)
    cost = [0.0] * (n + 1)  # waste from this place on, without use
    best = [0] * n
    left = 0.0  # mass from this place on
    for first in range(n - 1, -1, -1):
        left += masses[first]
        least = inf
        for k in range(first, n):
            held = places[k] * left
            if held >= least:
                break
            if held + cost[k + 1] < least:
                least, best[first] = held + cost[k + 1], k
        cost[first] = least
    found: list[float] = []
    first = 0
    while first < n:
        found.append(places[best[first]])
        first = best[first] + 1
    return found


def wasted(reserved: float, value: float) -> float:
    """Return the reservations of one job's attempts beyond ``value``, per second, in the unit of both."""
    held = 0.0
    for _ in range(RETRIES):
        if value <= reserved:
            break
        held += reserved
        reserved *= 2.0
    return held + max(reserved, value) - value


def held(attempts: Sequence[float], value: float, request: float = 0.0) -> float:
    """Return the total that one job's attempts hold, per second, in the unit of both.

    After the last of ``attempts``, each is twice the one before, but the ``request`` before more than that.

    >>> held([2.0, 3.0], 2.5), held([2.0], 5.0), held([2.0, 3.0], 4.0, request=4.0)
    (5.0, 14.0, 9.0)
    """
    total = reserved = 0.0
    for reserved in attempts:
        total += reserved
        if value <= reserved:
            return total
    for _ in range(RETRIES):
        twice = 2.0 * reserved
        reserved = request if reserved < request < twice else twice
        total += reserved
        if value <= reserved:
            return total
    return total + value


MEAN_OF = 5000  # jobs; memory length of the site's mean job and mean requested time


class MeanJob(Stored):
    """The site's mean job, in value x seconds, and the mean requested time."""

    kept = ("value_seconds", "_n", "_mean_seconds", "_timed")

    def __init__(self) -> None:
        self.value_seconds = 0.0
        self._n = 0
        self._mean_seconds = 1.0  # until the first job
        self._timed = 0

    def seconds(self, seconds: float | None) -> float:
        """Return the time for which a job may hold its reservation: its requested time, or the mean one."""
        return seconds or self._mean_seconds

    def learn(self, value: float, seconds: float | None) -> None:
        """Learn the use of a job."""
        self._n += 1
        if seconds:
            self._timed += 1
            self._mean_seconds += (seconds - self._mean_seconds) / min(self._timed, MEAN_OF)
        job = min(value * self.seconds(seconds), LARGEST)
        self.value_seconds += (job - self.value_seconds) / min(self._n, MEAN_OF)


FEW = 5  # jobs of an application needed before reservations may be below its own quantile
CAUTION = 0.03  # share; limit on its failures, since jobs of a burst fail together

Basis = Literal["quantile", "largest seen", "request", "facts", "similar jobs"]
"""Basis of a bound: the distribution of values; the largest value seen or reservation that ran out, with a margin; the
job's own request; jobs with similar facts; the use or failures of similar jobs (decided by the server)."""


class Bound(NamedTuple):
    """A reservation: ``value``, the estimated ``exceed_probability`` that the job needs more, and the basis."""

    value: float
    exceed_probability: float
    basis: Basis


class Case(NamedTuple):
    """Properties of a job besides its prospect.

    ``seconds``: time for which it may hold the reservation, None if unknown; ``request`` by the user, and whether that
    ``is_limit``; ``ended``: jobs of its application, in so many ``bursts``; ``own``: evidence from the user's jobs;
    ``shortfall``: probability that it exceeds a recent insufficient reservation, beyond its distribution; ``largest``:
    largest value of similar jobs.
    """

    seconds: float | None = None
    request: float | None = None
    is_limit: bool = False
    ended: int = 0
    own: int = 1
    shortfall: float = 0.0
    largest: float = inf


class Bounds:
    """Reserves at the least expected cost of waste and failures (``cheapest``).

    The price follows the site's failures (``FailurePrice``): cheap jobs are safer than expensive ones, and the chosen
    share fits in the long run. Until ``FEW`` jobs of an application have ended, and while they lately needed more than
    they had, a job gets at least the quantile of its own distribution, which with little evidence lies above the
    largest value seen.

    Raises:
        ValueError: ``coverage`` is not a share of jobs.
    """

    def __init__(self, coverage: float = 0.95, *, of_time: bool = False) -> None:
        """``of_time``: values are run times, so a long job also wastes for long."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: it is a share of jobs, above 0 and below 1")
        self.coverage = coverage
        self._of_time = of_time
        self.mean_job = MeanJob()

    def reserve(self, prospect: Prospect, case: Case, price_mean_jobs: float) -> Bound:
        """Return the reservation for a job; a failure costs this many mean jobs besides its waste."""
        request = case.request
        may_fail = 1.0 - self.coverage
        if not prospect.places:  # only the request is known
            return Bound(request or 0.0, 0.0 if case.is_limit else may_fail, "request")
        ceiling = request if request is not None and case.is_limit else inf
        steps = prospect.steps
        price = price_mean_jobs * self.mean_job.value_seconds
        if not self._of_time:
            price /= self.mean_job.seconds(case.seconds)
        value, exceeds = cheapest(Costs.of(prospect, of_time=self._of_time), prospect.beyond, ceiling, price)
        is_new = case.ended < FEW and case.is_limit
        if is_new or case.shortfall > may_fail:
            cautious = quantile(steps, prospect.beyond, min(may_fail, CAUTION) if is_new else may_fail)
            value, exceeds = max((value, exceeds), cautious)
        if request is not None and (value >= ceiling or (value < request and not case.own)):
            value, exceeds = request, 0.0 if case.is_limit else exceeds
        seen = case.largest * SPREAD[-1][0]
        basis: Basis = "request" if value == request else "largest seen" if value > seen else "quantile"
        return Bound(min(value, LARGEST), min(1.0, max(0.0, exceeds)), basis)

    def can_fail(self, request: float, seconds: float | None, price_mean_jobs: float) -> bool:
        """Return whether the failure of a job that may hold ``request`` for ``seconds`` costs less than its price."""
        job = request * (request if self._of_time else self.mean_job.seconds(seconds))
        return job * price_mean_jobs < self.mean_job.value_seconds

    def learn(self, value: float, seconds: float | None = None) -> None:
        """Learn the need of a job that may have run for ``seconds``."""
        self.mean_job.learn(value, seconds or (value if self._of_time else None))

    def failure(self) -> float:
        """Cost of a failed attempt besides its waste: a mean job, in value x seconds."""
        return self.mean_job.value_seconds


REQUEST_FADE = 0.999  # share of a waste's weight left one job later
BETTER = 0.8  # share of the bounds' waste below which requests are followed
DOUBTED = 1.0  # jobs that may exceed their requests, beyond the share that bounds may fail

REQUESTED = {"memory": "requested_memory_bytes", "runtime": "requested_time_s"}
"""The question's field with the request of each metric."""


class RequestedLimits(Stored):
    """Counts jobs that used more than they requested.

    Requests are limits as long as at least as many jobs stay within them as within bounds: then no forecast and no
    bound need exceed them.
    """

    kept = ("_asked", "_beyond", "_wasted_by_requests", "_wasted_by_bounds")

    def __init__(self, metric: str, bounds: Bounds) -> None:
        self._bounds = bounds
        self._field = REQUESTED.get(metric)
        self._asked = 0
        self._beyond = 0
        self._wasted_by_requests = 0.0
        self._wasted_by_bounds = 0.0

    def of(self, question: Question) -> float | None:
        """Return the job's request of the metric; None without one."""
        found: float | None = getattr(question, self._field) if self._field is not None else None
        return found

    @property
    def are_limits(self) -> bool:
        """Return whether a job is expected to stay within its request."""
        return self._beyond <= (1.0 - self._bounds.coverage) * self._asked + DOUBTED

    @property
    def are_better(self) -> bool:
        """Return whether requests have lately wasted clearly less than bounds: these users know their jobs' needs."""
        return self._wasted_by_requests < BETTER * self._wasted_by_bounds

    def learn(self, request: float | None, bound: float | None, value: float, seconds: float) -> None:
        """Compare the use of a job that ran for ``seconds`` with its request, and with the bound from similar jobs.

        A failed attempt costs the price of a failure (``Bounds.failure``) besides its waste, in value x seconds.
        """
        if request is None:
            return
        self._asked += 1
        self._beyond += value > request
        if bound is not None:
            failure = self._bounds.failure()
            self._wasted_by_requests *= REQUEST_FADE
            self._wasted_by_bounds *= REQUEST_FADE
            self._wasted_by_requests += wasted(request, value) * seconds + failure * (value > request)
            self._wasted_by_bounds += wasted(bound, value) * seconds + failure * (value > bound)
