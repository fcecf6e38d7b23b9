"""The forecast of one job: the votes of its groups, how certain it is, and how much to reserve."""

from __future__ import annotations

from math import inf
from statistics import median_low

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.job_groups import GroupKey
from jobsight_predictor.quality import NEAR
from jobsight_predictor.question import Question

from .expert_weights import best_vote
from .group import CANDIDATES, Group
from .keys import SHARE, SHARES, JobKeys
from .model import Model
from .pending import Forecasts, PendingForecast
from .prospect import Prospect, firsts, levels_of, prospect, with_shortfall
from .reserve import Bound, Case

FIRST_SHARE = 0.5  # share; of hits, for a new user
BEYOND = 1.01  # share of the request; more than this is no matter of rounding
ROUNDED = 1.01  # factor; a lower bound may have been this much larger than reported (rounding)
UNSEEN = 1.0  # jobs; weight of values that may lie anywhere, in assessing the weight near the forecast


def make_forecast(model: Model, question: Question) -> PendingForecast:
    """What the model forecasts for the job; changes nothing."""
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
    weights = model.experts.weights(question.user)
    votes: dict[float, float] = {}
    present: list[tuple[GroupKey, Group]] = []
    groups = model.groups
    width = len(CANDIDATES)
    for index, key in keys.groups:
        group = groups.get(key)
        if group is None:
            continue
        present.append((key, group))
        said = group.forecasts()
        if is_limit:
            said = tuple([value if value < ceiling else ceiling for value in said])
        i = index * width
        forecasts[i : i + width] = said
        for value in said:
            votes[value] = votes.get(value, 0.0) + weights[i]
            i += 1
    shares: list[Group | None] = [None] * len(SHARES)
    if request is not None:
        for index, key in keys.shares:
            group = groups.get(key)
            if group is None:
                continue
            shares[index - model.shares.start] = group
            said = tuple([min(share * request, ceiling) for share in group.forecasts()])
            i = index * width
            forecasts[i : i + width] = said
            for value in said:
                votes[value] = votes.get(value, 0.0) + weights[i]
                i += 1
    if not votes:
        found = with_shortfall(Prospect({}, 0.0), shortfall, 0, ceiling)
        if request is not None or found.places:
            _use(model, forecast, found, _bound(model, forecast, question, found, shortfall.share, 0.0))
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
    _use(
        model,
        forecast,
        found,
        _bound(
            model, forecast, question, found, shortfall.share if found is not usual else 0.0, largest, evidence, ended
        ),
    )
    forecast.by_groups = forecast.bound
    history = model.facts.get(keys.kind) if question.facts else None
    near = None if history is None else history.prospect(question.facts, ceiling)
    if history is not None and near is not None and forecast.bound is not None:
        usual, near = near, with_shortfall(near, shortfall, ended, ceiling)
        by_facts = _bound(
            model, forecast, question, near, shortfall.share if near is not usual else 0.0, inf, evidence, ended
        )
        forecast.by_facts = by_facts.value
        if history.is_better:
            _use(model, forecast, near, by_facts if by_facts.basis == "request" else by_facts._replace(basis="facts"))
    if request is not None and is_limit and model.requests.are_better:
        _use(model, forecast, found, Bound(request, 0.0, "request"))
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
    return model.bounds.reserve(found, case)


def _use(model: Model, forecast: PendingForecast, found: Prospect, bound: Bound) -> None:
    forecast.prospect = found
    forecast.bound, forecast.stated_exceed, forecast.basis = bound
    forecast.exceed_probability = model.exceeding.correct(forecast.stated_exceed)


def _features(model: Model, user: str | None, expected: float, value: float, group: Group) -> tuple[float, ...]:
    """As in ``hit_probability.FEATURES``, of the most specific group."""
    losses = model.experts.users.get(user)
    user_share = losses.hits.share(FIRST_SHARE) if losses else FIRST_SHARE
    places, total = group.mode.distribution()
    low, high = value / (1.0 + NEAR), value / (1.0 - NEAR)
    near = sum([weight for place, weight in places if low <= place <= high])
    return (
        expected,
        user_share,
        group.hits.share(user_share),
        near / (total + UNSEEN),
    )
