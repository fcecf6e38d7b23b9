"""The forecast of one job: the votes of its groups, how certain it is, and how much to reserve."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import median_low
from typing import Any, NamedTuple, Self

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.profile.probability import Forecasts, best_vote
from jobsight_predictor.question import GroupKey, Moment, Question
from jobsight_predictor.series import NEAR

from .calibration import Calibration
from .group import CANDIDATES, SHARE, SHARES, Group, JobKeys
from .model import Model
from .prospect import Prospect, firsts, levels_of, prospect, with_shortfall
from .reserve import Basis, Bound, Case
from .running import stated_near_limit
from .steps import ladder
from .underway import slots


class PendingForecast:
    """Made when the job was submitted; ``value`` and ``bound`` are None if nothing was known then.

    ``forecasts`` are those of each candidate of each job group. ``known`` is the number of jobs of the site learned by
    then; ``basis`` that of the bound; ``by_groups`` and ``by_facts`` the bounds by the history of such jobs, and by
    their facts; ``stated_exceed`` what the distribution alone says of ``exceed_probability``, and ``out_near_limit``
    what it says of jobs near their limit (``stated_near_limit``). ``keys``, ``is_new`` (no job of its kind has ended),
    ``ranking``, ``exceed_probability``, ``is_limit`` (whether it is held to its request), ``of_time`` and ``prospect``
    serve the immediate answer and are not kept.
    """

    __slots__ = (
        "_attempts", "basis", "bound", "by_facts", "by_groups", "exceed_probability", "features", "forecasts",
        "is_limit", "is_new", "keys", "known", "of_time", "out_near_limit", "probability", "prospect", "ranking",
        "stated_exceed", "value",
    )  # fmt: skip

    def __init__(self, forecasts: Forecasts, keys: JobKeys | None = None, known: int = 0, is_new: bool = False) -> None:
        self.forecasts = forecasts
        self.keys = keys
        self.known = known
        self.is_new = is_new
        self.basis: Basis | None = None
        self.ranking: list[tuple[float, float]] = []
        self.value: float | None = None
        self.bound: float | None = None
        self.exceed_probability: float | None = None
        self.stated_exceed: float | None = None
        self.by_groups: float | None = None
        self.by_facts: float | None = None
        self.is_limit = False
        self.of_time = False
        self.out_near_limit: float | None = None
        self._attempts: tuple[float, ...] | None = None
        self.prospect: Prospect | None = None
        self.probability = 0.0
        self.features: tuple[float, ...] = ()

    @property
    def attempts(self) -> tuple[float, ...]:
        """What to reserve at each attempt, the bound first; empty if nothing is known. Made when first asked for."""
        if self._attempts is None:
            self._attempts = () if self.bound is None else (self.bound,)
            if self.bound is not None and self.prospect is not None:
                request = None if self.keys is None or not self.is_limit else self.keys.request
                self._attempts = ladder(
                    self.prospect, self.bound, inf if request is None else request, of_time=self.of_time
                )
        return self._attempts

    def state(self) -> list[Any]:
        """What scoring needs, as JSON values."""
        return [
            self.forecasts, self.value, self.bound, self.probability, list(self.features), self.known, self.basis,
            [self.by_groups, self.by_facts], self.stated_exceed, self.attempts, self.out_near_limit,
        ]  # fmt: skip

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Restores the forecast whose ``state()`` this was, as far as scoring needs it."""
        forecasts, value, bound, probability, features, *rest = state
        restored = cls(forecasts)
        if rest:  # release 0.1 kept none of these
            restored.known, restored.basis, *later = rest
            if later and isinstance(later[0], list):  # release 0.2 kept a number in its place
                restored.by_groups, restored.by_facts = later[0]
            if len(later) > 1:
                restored.stated_exceed = later[1]
            if len(later) > 2:
                restored._attempts = tuple(later[2])
            if len(later) > 3:
                restored.out_near_limit = later[3]
        restored.value = value
        restored.bound = bound
        restored.probability = probability
        restored.features = tuple(features)
        return restored


class AtStart(NamedTuple):
    """What is kept of a forecast that was asked for again as the job started: no group learns by it.

    None where nothing was known; ``stated_exceed``, ``out_near_limit`` and ``forecasts`` as of a ``PendingForecast``.
    """

    value: float | None
    bound: float | None
    probability: float | None
    stated_exceed: float | None
    out_near_limit: float | None = None
    forecasts: Forecasts | None = None

    @classmethod
    def of(cls, forecast: PendingForecast) -> Self:
        """What is kept of this one."""
        probability = None if forecast.value is None else forecast.probability
        return cls(
            forecast.value,
            forecast.bound,
            probability,
            forecast.stated_exceed,
            forecast.out_near_limit,
            forecast.forecasts,
        )


FIRST_SHARE = 0.5  # share; of hits, for a new user
BEYOND = 1.01  # share of the request; more than this is no matter of rounding
ROUNDED = 1.01  # factor; a lower bound may have been this much larger than reported (rounding)
UNSEEN = 1.0  # jobs; weight of values that may lie anywhere, in assessing the weight near the forecast


def make_forecast(model: Model, question: Question, moment: Moment = "submission") -> PendingForecast:
    """What the model forecasts for the job at this moment of its life; changes nothing."""
    calibration = model.calibrations[moment]
    keys = model.keys(question)
    request = keys.request
    forecasts: Forecasts = [None] * model.size
    is_new = keys.kind not in model.kinds and not _left_out(model, question)
    forecast = PendingForecast(forecasts, keys, model.n, is_new)
    shortfall = model.shortfalls.of(question)
    is_limit = (
        request is not None
        and request > ROUNDED * shortfall.lower_bound
        and model.requests.are_limits(model.bounds.coverage)
        and not _beyond(model, keys)
    )
    forecast.is_limit, forecast.of_time = is_limit, model.of_time
    ceiling = request if request is not None and is_limit else LARGEST
    weights = model.experts.weights(question.user, moment)
    votes: dict[float, float] = {}
    present: list[tuple[GroupKey, Group]] = []
    groups = model.groups
    vote = votes.get
    width = len(CANDIDATES)
    for index, key in keys.groups:
        group = groups.get(key)
        if group is None:
            continue
        present.append((key, group))
        said = group.forecasts()
        if is_limit and max(said) > ceiling:
            said = tuple([value if value < ceiling else ceiling for value in said])
        i = index * width
        forecasts[i : i + width] = said
        for value in said:
            votes[value] = vote(value, 0.0) + weights[i]
            i += 1
    shares: list[Group | None] = [None] * len(SHARES)
    if request is not None:
        for index, key in keys.shares:
            group = groups.get(key)
            if group is None:
                continue
            shares[index - model.shares.start] = group
            said = tuple([share * request for share in group.forecasts()])
            if max(said) > ceiling:
                said = tuple([value if value < ceiling else ceiling for value in said])
            i = index * width
            forecasts[i : i + width] = said
            for value in said:
                votes[value] = vote(value, 0.0) + weights[i]
                i += 1
    if votes and model.underway:
        for i, used in enumerate(model.underway.forecasts(slots(keys)), model.of_running):
            if used is not None:
                value = forecasts[i] = min(used, ceiling)
                votes[value] = vote(value, 0.0) + weights[i]
    if not votes:
        found = with_shortfall(Prospect({}, 0.0), shortfall, 0, ceiling)
        if request is not None or found.places:
            bound = _bound(model, calibration, forecast, question, found, shortfall.share, 0.0)
            _use(calibration, forecast, found, bound)
        return forecast
    forecast.ranking = best_vote(votes)
    expected, forecast.value = forecast.ranking[0]
    forecast.features = _features(model, question.user, expected, forecast.value, present[0][1])
    forecast.probability = model.hit_probability.probability(forecast.features)
    levels = firsts(groups, keys) if forecast.is_new else []
    levels = levels or levels_of(present, shares, request)
    own = [group for key, group in present if key[0] & 1 or question.user is None]
    evidence = own[-1].evidence if own else 0
    found = prospect(levels, ceiling, of_time=model.of_time)
    bits = keys.kind[0]
    ended = max([group.mode.n for key, group in present if key[0] & bits == bits], default=0)
    usual, found = found, with_shortfall(found, shortfall, ended, ceiling)
    largest = max([group.top * scale for group, scale, _ in levels[0]])
    unexplained = shortfall.share if found is not usual else 0.0
    bound = _bound(model, calibration, forecast, question, found, unexplained, largest, evidence, ended)
    _use(calibration, forecast, found, bound)
    forecast.by_groups = forecast.bound
    history = model.facts.get(keys.kind) if question.facts else None
    near = None if history is None else history.prospect(question.facts, ceiling)
    if history is not None and near is not None and forecast.bound is not None:
        usual, near = near, with_shortfall(near, shortfall, ended, ceiling)
        unexplained = shortfall.share if near is not usual else 0.0
        by_facts = _bound(model, calibration, forecast, question, near, unexplained, inf, evidence, ended)
        forecast.by_facts = by_facts.value
        if history.is_better:
            _use(
                calibration,
                forecast,
                near,
                by_facts if by_facts.basis == "request" else by_facts._replace(basis="facts"),
            )
    price = calibration.price.mean_jobs()
    spared = (
        moment == "start" and request is not None and model.bounds.can_fail(request, question.requested_time_s, price)
    )
    if request is not None and forecast.prospect is not None:
        forecast.out_near_limit = stated_near_limit(forecast.prospect, request)
    if request is not None and is_limit and model.requests.are_better and not spared:
        _use(calibration, forecast, found, Bound(request, 0.0, "request"))
    return forecast


def _beyond(model: Model, keys: JobKeys) -> bool:
    """Whether most of the last jobs of this kind used more than they requested: then nothing holds this one to it."""
    of_kind = model.groups.get((SHARE | keys.kind[0], keys.kind[1]))
    return of_kind is not None and median_low(of_kind.recent) > BEYOND


def _left_out(model: Model, question: Question) -> bool:
    """Whether the question leaves out the kind of the job, rather than naming a new one: others of the user are known.

    A log without applications has none for its first jobs either, but then their user is new too.
    """
    known = model.n > 0 if question.user is None else question.user in model.experts.users
    return question.application is None and known


def _bound(
    model: Model,
    calibration: Calibration,
    forecast: PendingForecast,
    question: Question,
    found: Prospect,
    shortfall: float,
    largest: float,
    own: int = 0,
    ended: int = 0,
) -> Bound:
    assert forecast.keys is not None
    case = Case(
        seconds=question.requested_time_s,
        request=forecast.keys.request,
        is_limit=forecast.is_limit,
        ended=ended,
        own=own,
        shortfall=shortfall,
        largest=largest,
    )
    return model.bounds.reserve(found, case, calibration.price.mean_jobs())


def _use(calibration: Calibration, forecast: PendingForecast, found: Prospect, bound: Bound) -> None:
    forecast.prospect = found
    forecast.bound, forecast.stated_exceed, forecast.basis = bound
    forecast.exceed_probability = calibration.exceeding.correct(forecast.stated_exceed)


def _features(model: Model, user: str | None, expected: float, value: float, group: Group) -> tuple[float, ...]:
    """As in ``hit_probability.FEATURES``, of the most specific group."""
    losses = model.experts.users.get(user)
    user_share = losses.hits.share(FIRST_SHARE) if losses else FIRST_SHARE
    places, total = group.distribution()
    low, high = value / (1.0 + NEAR), value / (1.0 - NEAR)
    near = sum([weight for place, weight in places if low <= place <= high])
    return (
        expected,
        user_share,
        group.hits.share(user_share),
        near / (total + UNSEEN),
    )
