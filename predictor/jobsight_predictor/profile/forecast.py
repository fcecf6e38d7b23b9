"""Forecasts one job: similar jobs, their votes, and the reservation from their distribution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import inf
from statistics import median_low
from typing import Any, NamedTuple, Self

from jobsight_predictor.profile.calibration import Calibration, Forecasts, best_vote
from jobsight_predictor.profile.groups import Group, Stored
from jobsight_predictor.profile.model import Model
from jobsight_predictor.profile.prospect import (
    Prospect,
    Witness,
    first_jobs,
    levels_of,
    prospect,
    stated_near_limit,
    with_shortfall,
)
from jobsight_predictor.profile.reserve import FEW, Basis, Bound, Case, exceeding, ladder
from jobsight_predictor.question import SHARE, USER, JobKeys, Moment, Question
from jobsight_predictor.series import NEAR

APART = 1.05
"""Least factor by which the next attempt asks for more."""


def further(first: float, ladder: Sequence[float]) -> tuple[float, ...]:
    """Return the requests of all attempts: ``first``, then the rungs of the ``ladder`` beyond it, else twice as much.

    >>> further(4.0, (2.0, 4.1, 6.0)), further(8.0, (2.0, 6.0))
    ((4.0, 6.0), (8.0, 16.0))
    """
    return (first, *([amount for amount in ladder if amount > APART * first] or [2.0 * first]))


class PendingForecast(Stored):
    """A forecast kept until its job has ended, made at submission or as the job started.

    ``value``, its ``probability`` and ``bound`` are None if nothing was known. ``forecasts`` are those of the
    candidates of each known group. ``known`` is the number of the site's jobs learned by then, ``basis`` that of the
    bound; ``by_groups`` and ``by_facts`` the bounds by the history of similar jobs, and by the job's facts;
    ``stated_exceed`` the ``exceed_probability`` by the distribution alone, and ``out_near_limit`` that of jobs near
    their limit (``stated_near_limit``). ``decided``: recommended requests that differ from the bound, one an attempt.
    The others serve the immediate answer and are not kept: ``keys``, ``weights`` (of the candidates), ``ranking``,
    ``exceed_probability``, ``limit`` (the request that it is held to), ``of_time`` and ``prospect``.
    """

    kept = (
        "forecasts", "value", "bound", "probability", "features", "known", "basis", "by_groups", "by_facts",
        "stated_exceed", "_attempts", "out_near_limit", "decided",
    )  # fmt: skip
    __slots__ = (*kept, "exceed_probability", "keys", "limit", "of_time", "prospect", "ranking", "weights")

    def __init__(self, forecasts: Forecasts | None = None, keys: JobKeys | None = None, known: int = 0) -> None:
        self.forecasts: Forecasts = forecasts or []
        self.keys = keys
        self.known = known
        self.basis: Basis | None = None
        self.weights: list[float] = []
        self.ranking: list[tuple[float, float]] = []
        self.value: float | None = None
        self.bound: float | None = None
        self.exceed_probability: float | None = None
        self.stated_exceed: float | None = None
        self.by_groups: float | None = None
        self.by_facts: float | None = None
        self.limit = inf
        self.of_time = False
        self.out_near_limit: float | None = None
        self._attempts: tuple[float, ...] | None = None
        self.decided: tuple[float, ...] | None = None
        self.prospect: Prospect | None = None
        self.probability: float | None = None
        self.features: tuple[float, ...] = ()

    @property
    def first(self) -> float | None:
        """Recommended request; None if unknown."""
        return self.decided[0] if self.decided else self.bound

    @property
    def attempts(self) -> tuple[float, ...]:
        """Reservations of the attempts; empty if unknown. Made when first needed."""
        if self._attempts is None:
            self._attempts = () if self.bound is None else (self.bound,)
            if self.bound is not None and self.prospect is not None:
                self._attempts = ladder(self.prospect, self.bound, self.limit, of_time=self.of_time)
        return self.decided or self._attempts

    def asking(self, attempts: tuple[float, ...]) -> Self:
        """Return a copy with other amounts to request; jobs of a burst share the original."""
        found = type(self)()
        for name in type(self).__slots__:  # a third of the time of ``copy``
            setattr(found, name, getattr(self, name))
        found.decided = attempts
        return found

    def state(self) -> list[Any]:
        """Return the part that scoring needs, as JSON values."""
        assert self.attempts is not None
        return super().state()

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Restore a forecast from its ``state()``, as far as scoring needs it."""
        restored = cls()
        restored.load(state)
        restored._attempts = tuple(restored._attempts or ())
        restored.decided = None if restored.decided is None else tuple(restored.decided)
        return restored


BEYOND = 1.01  # share of the request beyond which a use exceeds it, rounding aside
ROUNDED = 1.01  # factor by which a lower bound may exceed the reported one (rounding)


class SimilarJobs(NamedTuple):
    """Votes, distribution and case of jobs similar to one, the same for submission and start.

    ``forecasts`` are those of all candidates. ``closest`` is the most specific group, None without forecasts.
    ``of_first_jobs`` is the forecast for a job of a new application, from the first jobs of other applications once
    there are ``FEW``. ``by_facts`` are distribution and case of jobs with similar facts. ``out_near_limit``: see
    ``stated_near_limit``.
    """

    keys: JobKeys
    forecasts: Forecasts
    closest: Group | None
    prospect: Prospect
    case: Case
    by_facts: tuple[Prospect, Case] | None = None
    facts_are_better: bool = False
    out_near_limit: float | None = None
    of_first_jobs: float | None = None

    def held_to(self, request: float) -> SimilarJobs:
        """Return the same for a job that needs no more than its request."""
        case = self.case._replace(is_limit=True)
        by_facts = self.by_facts and (self.by_facts[0].cut(request), self.by_facts[1]._replace(is_limit=True))
        forecasts: Forecasts = [
            (number, of_group if max(of_group) <= request else [min(value, request) for value in of_group])
            for number, of_group in self.forecasts
        ]
        return self._replace(forecasts=forecasts, prospect=self.prospect.cut(request), case=case, by_facts=by_facts)


def similar_jobs(model: Model, question: Question) -> SimilarJobs:
    """Find the jobs similar to this one; changes nothing."""
    keys, groups = model.keys(question), model.groups
    request = keys.request
    forecasts: Forecasts = []
    values: list[tuple[int, Group]] = []
    shares: dict[int, Witness] = {}
    for number, key in keys.values:
        if (group := groups.get(key)) is not None:
            values.append((key[0], group))
            forecasts.append((number, group.forecasts()))
    for number, key in keys.shares:
        if (group := groups.get(key)) is not None:
            asked = request or 0.0
            shares[key[0] & ~SHARE] = Witness(group, max(asked, group.least))
            forecasts.append((number, [value * asked for value in group.forecasts()]))
    shortfall = model.shortfalls.of(keys)

    def case(explained: bool, largest: float, evidence: int = 0, ended: int = 0) -> Case:
        missed = 0.0 if explained else shortfall.share
        return Case(question.requested_time_s, request, False, ended, evidence, missed, largest)

    if not values:
        unknown = with_shortfall(Prospect({}, 0.0), shortfall, 0)
        return SimilarJobs(keys, forecasts, None, unknown, case(False, 0.0))
    is_new = keys.application not in model.bursts and not _lacks_application(model, question, keys)
    levels = first_jobs(groups, keys) if is_new else []
    of_first_jobs = None
    if levels and levels[-1][0].group.n >= FEW:
        of_first_jobs = levels[0][0].group.forecasts()[1] * levels[0][0].scale
    levels = levels or levels_of(values, shares)
    anyone = question.user is None
    evidence = next((group.evidence for bits, group in reversed(values) if bits & USER or anyone), 0)
    fields = keys.application[0]
    of_application = [group for bits, group in values if bits & fields == fields]
    ended = max([group.n for group in of_application], default=0)
    by_groups = prospect(levels, of_time=model.of_time)
    raised = decides = with_shortfall(by_groups, shortfall, ended)
    largest = max([group.top * scale for group, scale, _ in levels[0]])
    of_groups = case(raised is by_groups, largest, evidence, ended)
    by_facts, facts_are_better = None, False
    history = model.facts.get(keys.application) if question.facts else None
    found = None if history is None else history.prospect(question.facts)
    if history is not None and found is not None:
        by_known = with_shortfall(found, shortfall, ended)
        by_facts = by_known, case(by_known is found, inf, evidence, ended)
        facts_are_better = history.is_better
        decides = by_known if facts_are_better else raised
    near = None if request is None else stated_near_limit(decides, request)
    closest = values[0][1]
    return SimilarJobs(keys, forecasts, closest, raised, of_groups, by_facts, facts_are_better, near, of_first_jobs)


def limit_of(model: Model, keys: JobKeys) -> float | None:
    """Return the request of a job that is held to it; None for one that may need more."""
    request = keys.request
    if request is None or not model.requests.are_limits or _beyond(model, keys):
        return None
    return request if request > ROUNDED * model.shortfalls.of(keys).lower_bound else None


def _beyond(model: Model, keys: JobKeys) -> bool:
    """Return whether most of the last jobs of this application used more than requested: then requests do not limit
    it."""
    fields, values = keys.application
    of_application = model.groups.get((SHARE | fields, values))
    return of_application is not None and median_low(of_application.recent) > BEYOND


def _lacks_application(model: Model, question: Question, keys: JobKeys) -> bool:
    """Return whether the question omits the application, rather than naming a new one, while jobs of the user are
    known.

    In a log without applications, the first jobs have none either, but then their user is new too.
    """
    known = model.n > 0 if question.user is None else keys.user in model.experts.users
    return question.application is None and known


FIRST_SHARE = 0.5  # share of hits of a new user
UNSEEN = 1.0  # jobs; weight of values anywhere, in the share near the forecast


def weigh(model: Model, question: Question, similar: SimilarJobs, moment: Moment) -> PendingForecast:
    """Make the forecast for submission or start, with the weights and the price of that moment.

    Changes nothing. Nothing may be learned between ``similar_jobs`` and this; forecasts share their lists.
    """
    calibration = model.calibrations[moment]
    keys, request = similar.keys, similar.keys.request
    forecast = PendingForecast(similar.forecasts, keys, model.n)
    is_limit, forecast.of_time = similar.case.is_limit, model.of_time
    if request is not None and is_limit:
        forecast.limit = request
    price = calibration.price.mean_jobs()
    by_groups, group = similar.prospect, similar.closest
    if group is None and request is None and not by_groups.places:
        return forecast
    _use(calibration, forecast, by_groups, model.bounds.reserve(by_groups, similar.case, price))
    if group is None:  # without votes
        return forecast
    forecast.weights = model.experts.weights(keys.user, moment, similar.forecasts)
    votes: dict[float, float] = {}
    vote = votes.get
    said = chain.from_iterable([of_group for _, of_group in similar.forecasts])
    for value, weight in zip(said, forecast.weights, strict=True):
        votes[value] = vote(value, 0.0) + weight
    forecast.ranking = best_vote(votes)
    expected, forecast.value = forecast.ranking[0]
    if similar.of_first_jobs is not None and forecast.bound is not None and forecast.value > forecast.bound:
        # Votes come from applications with many jobs; the bound does not.
        forecast.value = min(similar.of_first_jobs, forecast.bound)
    forecast.features = _features(model, keys, expected, forecast.value, group)
    forecast.probability = model.hit_probability.probability(forecast.features)
    forecast.by_groups = forecast.bound
    if similar.by_facts is not None:
        by_facts, case = similar.by_facts
        bound = model.bounds.reserve(by_facts, case, price)
        forecast.by_facts = bound.value
        if similar.facts_are_better:
            bound = bound if bound.basis == "request" else bound._replace(basis="facts")
            _use(calibration, forecast, by_facts, bound)
    forecast.out_near_limit = similar.out_near_limit
    if request is not None and is_limit and model.requests.are_better:
        can_fail = model.bounds.can_fail(request, question.requested_time_s, price)
        if moment == "submission" or not can_fail:
            _use(calibration, forecast, by_groups, Bound(request, 0.0, "request"))
    # The forecast ignores facts, so it does not limit a bound from them.
    if forecast.bound is not None and forecast.basis not in (None, "facts") and forecast.bound < forecast.value:
        bound = Bound(forecast.value, exceeding(forecast.prospect, forecast.value), forecast.basis)
        _use(calibration, forecast, forecast.prospect or by_groups, bound)
    return forecast


def _use(calibration: Calibration, forecast: PendingForecast, prospect: Prospect, bound: Bound) -> None:
    forecast.prospect = prospect
    forecast.bound, forecast.stated_exceed, forecast.basis = bound
    forecast.exceed_probability = calibration.exceeding.correct(forecast.stated_exceed)


def _features(model: Model, keys: JobKeys, expected: float, value: float, group: Group) -> tuple[float, ...]:
    """Return ``probability.FEATURES`` of the most specific group."""
    losses = model.experts.users.get(keys.user)
    user_share = losses.hits.share(FIRST_SHARE) if losses else FIRST_SHARE
    places, total = group.distribution()
    low, high = value / (1.0 + NEAR), value / (1.0 - NEAR)
    near = sum([weight for place, weight in places if low <= place <= high])
    return expected, user_share, group.hits.share(user_share), near / (total + UNSEEN)
