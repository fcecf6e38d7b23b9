"""The answer to a question: the value, the reservation, and the jobs behind both."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

from jobsight_predictor.question import GroupKey, Moment, label

from .forecast import PendingForecast
from .groups import CANDIDATES, SHARE, SHARE_OF_REQUEST, SHARES, Group, level_name
from .reserve import Basis, exceeding, needs_of

if TYPE_CHECKING:
    from .profile import Profile

NO_HISTORY = "no history: no job with a value has ended on this cluster yet"

DIFFERENT = 0.01  # share of the better one; forecasts differ beyond this


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best forecast, and its source."""

    value: float
    forecaster: str
    level: str


@dataclass(frozen=True, slots=True)
class JobForecast:
    """A job's expected use and its reservation; without evidence ``value`` is None and ``reason`` says why.

    ``attempts`` is the ladder of reservations: the bound, then those that waste least given that all before were too
    little.

    ``probability`` is that of being within 20 %; ``bound`` is the reservation with which the share ``coverage`` of all
    jobs fits, ``bound_basis`` its basis, ``exceed_probability`` the estimated probability that this job needs more.
    ``need`` is the bound without the limit of the request; ``limited_by_request`` if that is more. ``need_steps`` are
    amounts, ascending, with the share of similar jobs for which each is enough. ``observed_coverage`` and
    ``observed_cost_coverage`` are the shares held by the site's bounds so far, by jobs and by value x seconds.
    ``level`` names the group of earlier jobs behind the forecast, ``n`` is its size, ``last_values`` the use of the
    last of them, oldest first.
    """

    value: float | None
    unit: str
    forecaster: str | None
    level: str | None
    n: int
    probability: float | None
    bound: float | None
    bound_basis: Basis | None
    need: float | None
    need_steps: tuple[tuple[float, float], ...]
    limited_by_request: bool
    attempts: tuple[float, ...]
    exceed_probability: float | None
    coverage: float
    observed_coverage: float | None
    observed_cost_coverage: float | None
    runner_up: RunnerUp | None
    last_values: tuple[float, ...]
    reason: str | None


@dataclass(frozen=True, slots=True)
class MeanError:
    """Mean relative error, each capped at 1, of the answers and of the best single candidate, over a user's jobs.

    ``best_candidate`` names that candidate, chosen in hindsight.
    """

    jobs: int
    answered: float
    best: float
    best_candidate: str


def need_steps(profile: Profile, need: PendingForecast, moment: Moment) -> tuple[tuple[float, float], ...]:
    """Return amounts and the shares of similar jobs for which each is enough, both ascending.

    A larger amount keeps the share of a smaller one where their bins of probabilities, corrected one by one, differ.
    """
    correct, needs = profile.calibrations[moment].exceeding.correct, needs_of(need.prospect)
    shares = accumulate([1.0 - correct(more) for _, more in needs], max)
    return tuple([(amount, share) for (amount, _), share in zip(needs, shares, strict=True)])


def explain(profile: Profile, forecast: PendingForecast, need: PendingForecast, moment: Moment) -> JobForecast:
    """Describe a job's forecast for this moment, with its source; ``need``: the same without the limit of its
    request."""
    held = profile.calibrations[moment].held
    value, forecaster, level, n, runner_up = forecast.value, None, None, 0, None
    last_values: tuple[float, ...] = ()
    if value is not None:
        assert forecast.keys is not None
        forecaster, key, group = _source(profile, forecast, value)
        level, n = level_name(key), group.n
        scale = (forecast.keys.request or 1.0) if key[0] & SHARE else 1.0
        last_values = tuple([last * scale for last in group.recent])
        for _, other in forecast.ranking:
            if abs(other - value) > DIFFERENT * value:
                its_forecaster, its_key, _ = _source(profile, forecast, other)
                runner_up = RunnerUp(other, its_forecaster, level_name(its_key))
                break
    correct = profile.calibrations[moment].exceeding.correct
    exceed_probability = forecast.exceed_probability
    if forecast.limit < inf and forecast.bound is not None and forecast.basis == "request":
        exceed_probability = correct(exceeding(need.prospect, forecast.bound))
    return JobForecast(
        value=value,
        unit=profile.unit,
        forecaster=forecaster,
        level=level,
        n=n,
        probability=None if value is None else forecast.probability,
        bound=forecast.bound,
        bound_basis=forecast.basis,
        need=need.bound,
        need_steps=need_steps(profile, need, moment),
        limited_by_request=forecast.bound is not None and (need.bound or 0.0) > forecast.bound,
        attempts=forecast.attempts,
        exceed_probability=exceed_probability,
        coverage=profile.bounds.coverage,
        observed_coverage=held.coverage,
        observed_cost_coverage=held.cost_coverage,
        runner_up=runner_up,
        last_values=last_values,
        reason=NO_HISTORY if value is None else None,
    )


def candidate_name(profile: Profile, index: int) -> str:
    """Return the name of a group's candidate in answers, by its place among all."""
    of_group, candidate = divmod(index, len(CANDIDATES))
    groups = [label(group) for group in profile.job_groups.groups]
    groups += [label(group) + SHARE_OF_REQUEST for group in SHARES]
    return f"{CANDIDATES[candidate]} by {groups[of_group]}"


def _source(profile: Profile, forecast: PendingForecast, value: float) -> tuple[str, GroupKey, Group]:
    """Return candidate, key and group of the most specific group that forecast ``value``, by the greatest weight."""
    assert forecast.keys is not None
    width, keys = len(CANDIDATES), dict([*forecast.keys.values, *forecast.keys.shares])
    for k, (number, of_group) in enumerate(forecast.forecasts):
        if value in of_group:
            weights = forecast.weights[k * width : (k + 1) * width]
            best = max([i for i in range(width) if of_group[i] == value], key=weights.__getitem__)
            return CANDIDATES[best], keys[number], profile.groups[keys[number]]
    for key in forecast.keys.first_jobs:  # of a new application
        if (group := profile.groups.get(key)) is not None:
            return CANDIDATES[1], key, group
    raise LookupError(f"no candidate forecast {value!r}")
