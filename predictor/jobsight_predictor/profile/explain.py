"""A forecast in words and figures: from which jobs it is, what the next best says, how well the answers did."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.profile.group import CANDIDATES, SHARE, SHARES
from jobsight_predictor.profile.model import Model
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import (
    GroupKey,
    Moment,
    label,
)

NO_HISTORY = "no history: no job with a value has ended on this cluster yet"

_SHARE_OF_REQUEST = ", share of request"
DIFFERENT = 0.01  # share of the better one; forecasts further apart than this differ


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The next best forecast and its source."""

    value: float
    forecaster: str
    level: str


@dataclass(frozen=True, slots=True)
class JobForecast:
    """A job's expected use and its reservation; ``value`` is None, with a ``reason``, if nothing is known.

    ``attempts`` is the ladder of what to reserve: the bound, and what wastes least after that was too little, each time
    given that all before were.

    ``probability`` is that of being within 20 %; ``bound`` is what to reserve so that ``coverage`` of all jobs fit,
    ``bound_basis`` what that rests on, ``exceed_probability`` the estimated probability that this job needs more; what
    the site's bounds have held so far is ``observed_coverage`` by jobs and ``observed_cost_coverage`` by value x
    seconds. ``level`` names the group of earlier jobs that the forecast came from, ``n`` is its size,
    ``last_values`` what the last of them used, oldest first.
    """

    value: float | None
    unit: str
    forecaster: str | None
    level: str | None
    n: int
    probability: float | None
    bound: float | None
    bound_basis: Basis | None
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
    """Mean relative error, each capped at 1, over a user's jobs: of the answers, and of the best single candidate.

    ``best_candidate`` names the one that was best for the user in hindsight.
    """

    jobs: int
    answered: float
    best: float
    best_candidate: str


def explain(
    model: Model, unit: str, user: str | None, forecast: PendingForecast, moment: Moment = "submission"
) -> JobForecast:
    """A fresh forecast for a job, made for this moment, and its source."""
    held = model.calibrations[moment].held
    value, forecaster, level, n, runner_up = forecast.value, None, None, 0, None
    last_values: tuple[float, ...] = ()
    if value is not None:
        weights = model.experts.weights(user, moment)
        forecaster, key, scale = _source(model, forecast, value, weights)
        level = level_name(model, key)
        group = model.groups[key]
        n, last_values = group.mode.n, tuple(last * scale for last in group.recent)
        for _, other in forecast.ranking[1:]:
            if abs(other - value) > DIFFERENT * value:
                its_forecaster, its_key, _ = _source(model, forecast, other, weights)
                runner_up = RunnerUp(other, its_forecaster, level_name(model, its_key))
                break
    return JobForecast(
        value=value,
        unit=unit,
        forecaster=forecaster,
        level=level,
        n=n,
        probability=None if value is None else forecast.probability,
        bound=forecast.bound,
        bound_basis=forecast.basis,
        attempts=forecast.attempts,
        exceed_probability=forecast.exceed_probability,
        coverage=model.bounds.coverage,
        observed_coverage=held.coverage,
        observed_cost_coverage=held.cost_coverage,
        runner_up=runner_up,
        last_values=last_values,
        reason=NO_HISTORY if value is None else None,
    )


def mean_error(model: Model, user: str | None) -> MeanError | None:
    """The answers compared with the user's best single candidate in hindsight; None for a user without jobs."""
    error = model.experts.mean_error(user)
    if error is None:
        return None
    job_group, candidate = divmod(error.best_expert, len(CANDIDATES))
    if job_group in model.shares:
        group = label(SHARES[job_group - model.shares.start]) + _SHARE_OF_REQUEST
    else:
        group = label(model.job_groups.groups[job_group])
    return MeanError(error.jobs, error.answered, error.best, f"{CANDIDATES[candidate]} by {group}")


def level_name(model: Model, key: GroupKey) -> str:
    """How answers name the group."""
    return model.job_groups.name(key) + (_SHARE_OF_REQUEST if key[0] & SHARE else "")


def level_fields(level: str) -> tuple[str, ...]:
    """What the jobs of a group have in common, by its name in an answer.

    >>> level_fields("user + application, share of request"), level_fields("site")
    (('user', 'application'), ())
    """
    fields = level.removesuffix(_SHARE_OF_REQUEST)
    return () if fields == label(()) else tuple(fields.split(" + "))


def _source(model: Model, forecast: PendingForecast, value: float, weights: list[float]) -> tuple[str, GroupKey, float]:
    """(candidate, key, factor) of the most specific group that forecast ``value``, by the greatest weight.

    The factor converts the group's values to the unit.
    """
    width = len(CANDIDATES)
    assert forecast.keys is not None
    for index, key in (*forecast.keys.groups, *forecast.keys.shares):
        said = [i for i in range(index * width, (index + 1) * width) if forecast.forecasts[i] == value]
        if said:
            best = max(said, key=weights.__getitem__)
            return CANDIDATES[best % width], key, (forecast.keys.request or 1.0) if key[0] & SHARE else 1.0
    raise LookupError(f"no candidate forecast {value!r}")
