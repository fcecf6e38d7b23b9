"""The forecast of one job: the votes of its groups, how certain it is, and how much to reserve."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple, Self

from jobsight_predictor.profile.probability import Forecasts, best_vote
from jobsight_predictor.question import Moment, Question
from jobsight_predictor.series import NEAR

from .calibration import Calibration
from .findings import Findings
from .group import Group, JobKeys
from .model import Model
from .prospect import Prospect
from .reserve import Basis, Bound
from .steps import ladder


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
UNSEEN = 1.0  # jobs; weight of values that may lie anywhere, in assessing the weight near the forecast


def weigh(model: Model, question: Question, findings: Findings, moment: Moment) -> PendingForecast:
    """What the model forecasts for the job at this moment of its life, which has weights and a price of its own.

    Changes nothing. Nothing may have been learned since the ``findings`` were gathered; forecasts share their lists.
    """
    calibration = model.calibrations[moment]
    keys, request = findings.keys, findings.keys.request
    forecast = PendingForecast(findings.forecasts, keys, model.n, findings.is_new)
    forecast.is_limit, forecast.of_time = findings.case.is_limit, model.of_time
    price = calibration.price.mean_jobs()
    found, group = findings.prospect, findings.closest
    if group is None:  # there are no votes
        if request is not None or found.places:
            _use(calibration, forecast, found, model.bounds.reserve(found, findings.case, price))
        return forecast
    weights = model.experts.weights(question.user, moment)
    votes: dict[float, float] = {}
    vote = votes.get
    for i, value in findings.votes:
        votes[value] = vote(value, 0.0) + weights[i]
    forecast.ranking = best_vote(votes)
    expected, forecast.value = forecast.ranking[0]
    forecast.features = _features(model, question.user, expected, forecast.value, group)
    forecast.probability = model.hit_probability.probability(forecast.features)
    _use(calibration, forecast, found, model.bounds.reserve(found, findings.case, price))
    forecast.by_groups = forecast.bound
    if findings.by_facts is not None:
        near, case = findings.by_facts
        by_facts = model.bounds.reserve(near, case, price)
        forecast.by_facts = by_facts.value
        if findings.facts_are_better:
            _use(
                calibration,
                forecast,
                near,
                by_facts if by_facts.basis == "request" else by_facts._replace(basis="facts"),
            )
    forecast.out_near_limit = findings.out_near_limit
    spared = (
        moment == "start" and request is not None and model.bounds.can_fail(request, question.requested_time_s, price)
    )
    if request is not None and forecast.is_limit and model.requests.are_better and not spared:
        _use(calibration, forecast, found, Bound(request, 0.0, "request"))
    return forecast


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
