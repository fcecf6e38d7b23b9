"""Learns from finished jobs; forecasts what the next one will use, and says from which jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jobsight_predictor.forecasters import checked
from jobsight_predictor.question import GroupKey, Limit, Moment, Objective, Question, label

from .forecast import AtStart, PendingForecast, SimilarJobs, finished_job, similar_jobs, weigh
from .groups import CANDIDATES, SHARE, SHARES, Part
from .model import NEARLY_ALL, Model
from .reserve import Basis, exceeding, needs_of
from .running import Outlook

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
    ``bound_basis`` what that rests on, ``exceed_probability`` the estimated probability that this job needs more.
    ``need`` is the bound of a job that its request does not limit; where that is more, ``limited_by_request``.
    ``need_steps`` are amounts with the share of such jobs that each is enough for, ascending. What
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
    """Mean relative error, each capped at 1, over a user's jobs: of the answers, and of the best single candidate.

    ``best_candidate`` names the one that was best for the user in hindsight.
    """

    jobs: int
    answered: float
    best: float
    best_candidate: str


def explain(
    model: Model,
    unit: str,
    user: str | None,
    forecast: PendingForecast,
    need: PendingForecast,
    moment: Moment = "submission",
) -> JobForecast:
    """The forecast for a job, made for this moment, and its source; ``need``: the same without a cut at its request."""
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
    correct = model.calibrations[moment].exceeding.correct
    exceed_probability = forecast.exceed_probability
    if forecast.is_limit and forecast.bound is not None and forecast.basis == "request":
        exceed_probability = correct(exceeding(need.prospect, forecast.bound))
    return JobForecast(
        value=value,
        unit=unit,
        forecaster=forecaster,
        level=level,
        n=n,
        probability=None if value is None else forecast.probability,
        bound=forecast.bound,
        bound_basis=forecast.basis,
        need=need.bound,
        need_steps=tuple((amount, 1.0 - correct(more)) for amount, more in needs_of(need.prospect)),
        limited_by_request=forecast.bound is not None and (need.bound or 0.0) > forecast.bound,
        attempts=forecast.attempts,
        exceed_probability=exceed_probability,
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
        matching = [i for i in range(index * width, (index + 1) * width) if forecast.forecasts[i] == value]
        if matching:
            best = max(matching, key=weights.__getitem__)
            return CANDIDATES[best % width], key, (forecast.keys.request or 1.0) if key[0] & SHARE else 1.0
    raise LookupError(f"no candidate forecast {value!r}")


QUESTIONS_AT_MOST = 200
"""Cached forecasts; cleared whenever the model learns."""


class Profile:
    """Learns from finished jobs of one metric on one cluster; forecasts what the next one will use.

    A forecast is judged as of the submission, when the user had to decide: keep the result of ``forecast_job`` at that
    time, and pass it to ``learn`` when the job has ended. In a burst of a thousand jobs it differs much from the
    forecast after the first of them have ended. Without it, the job is judged by the forecast at its end.

    A job that waited may be forecast again as it starts. These forecasts have weights and a calibration of their own;
    otherwise the model learns by those at submission.
    """

    def __init__(
        self,
        unit: str,
        coverage: float = 0.95,
        *,
        metric: str = "",
        objective: Objective = "coverage",
        limit: Limit = "auto",
    ) -> None:
        """``metric``: users may request memory and runtime; ``limit``: whether these requests are enforced."""
        self.unit = unit
        self._model = Model(coverage, metric, objective, limit)
        # Emptied whenever something is learned.
        self._latest: dict[tuple[Question, bool], tuple[SimilarJobs, dict[Moment, PendingForecast]]] = {}

    @property
    def n(self) -> int:
        """Number of jobs learned."""
        return self._model.n

    @property
    def observed_coverage(self) -> float | None:
        """Share of finished jobs within their bounds at submission; None before the first."""
        return self._model.calibrations["submission"].held.coverage

    @property
    def observed_cost_coverage(self) -> float | None:
        """The same, each job weighted by its use times its seconds; None before the first."""
        return self._model.calibrations["submission"].held.cost_coverage

    def answer(self, question: Question, moment: Moment = "submission") -> JobForecast:
        """The job's expected use, how much to reserve, how certain that is, and the basis. Changes nothing."""
        forecast = self.forecast_job(question, moment)
        need = self.forecast_job(question, moment, cut=False) if forecast.is_limit else forecast
        return explain(self._model, self.unit, question.user, forecast, need, moment)

    def forecast_job(self, question: Question, moment: Moment = "submission", *, cut: bool = True) -> PendingForecast:
        """The current forecast for the job, to be judged when it has ended. Changes nothing.

        ``cut``: nothing is expected above its request, where requests are limits.

        Jobs of a burst that ask the same question before anything new is learned share one forecast. As of their start
        they share with it what does not depend on the moment.
        """
        latest = self._latest.get((question, cut))
        if latest is None:
            if len(self._latest) >= QUESTIONS_AT_MOST:
                self._latest.clear()
            latest = self._latest[question, cut] = similar_jobs(self._model, question, cut=cut), {}
        similar, by_moment = latest
        forecast = by_moment.get(moment)
        if forecast is None:
            forecast = by_moment[moment] = weigh(self._model, question, similar, moment)
        return forecast

    def outlook(self, question: Question) -> Outlook:
        """The distribution of what the job needs in all, for when it runs. Changes nothing."""
        forecast, model = self.forecast_job(question, "start"), self._model
        return Outlook.of(forecast.prospect, model.near_limit.correction.shifts, of_time=model.of_time)

    @property
    def are_limits(self) -> bool:
        """Whether requests are enforced: hardly any job has used more than it requested."""
        return self._model.requests.are_limits

    def learn(
        self,
        question: Question,
        value: float,
        forecast: PendingForecast | None = None,
        seconds: float | None = None,
        *,
        lower_bound: bool = False,
        at: float | None = None,
        at_start: AtStart | None = None,
    ) -> None:
        """Score the forecast for the job, then learn what it used, in ``seconds`` if known.

        ``at_start``: the forecast as it started; None: it did not wait, and ``forecast`` stands for both.
        ``lower_bound``: it needed more than ``value``, as it was killed or measured in part. ``at``: when it ended, in
        seconds, UTC; groups without jobs for a year are removed. Without it, none are.

        Raises:
            ValueError: the value, which is named, is not a measurement; nothing changes then.
        """
        checked(value)
        model = self._model
        if at is not None:
            self._latest.clear()
            model.advance(at)
        if lower_bound:
            self._learn_lower_bound(question, value, forecast, at_start)
            return
        if forecast is None:
            forecast = self.forecast_job(question)
        self._latest.clear()
        job = finished_job(model, question, value, seconds, forecast, at_start)
        for submodel in model.learners:
            submodel.score(job)

    def _learn_lower_bound(
        self, question: Question, value: float, forecast: PendingForecast | None, at_start: AtStart | None
    ) -> None:
        model, expected = self._model, self.forecast_job(question).value
        self._latest.clear()
        if expected is None or value >= expected:  # or it says nothing: such jobs need more anyway
            model.shortfalls.add(question, value)
        if forecast is not None:
            again = at_start or forecast
            model.near_limit.learn(model.requests.of(question), value, again.out_near_limit, NEARLY_ALL, 1.0)
            model.calibrations["submission"].score_lower_bound(forecast, value)
            model.calibrations["start"].score_lower_bound(again, value)
            model.is_site_changed = True

    def mean_error(self, user: str | None) -> MeanError | None:
        """The answers compared with the user's best single candidate in hindsight; None for a user without jobs."""
        return mean_error(self._model, user)

    def state_keys(self, question: Question) -> list[str]:
        """Keys of the state that the answer to this question needs, and that learning such a job changes."""
        return self._model.state_keys(question)

    def changed_state(self) -> dict[str, Part]:
        """The state changed since the last call, by key."""
        return self._model.changed_state()

    def state(self) -> dict[str, Part]:
        """All state, by key."""
        return self._model.state()

    def too_old(self) -> int | None:
        """The current period, if it began since this was called last; else None.

        The caller, which stores ``changed_state``, deletes the parts that count until an earlier one.
        """
        clock = self._model.clock
        has_moved, clock.has_moved = clock.has_moved, False
        return clock.period if has_moved else None

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts (state, until) from ``changed_state`` or ``state``, but those that are too old by now.

        Raises:
            ValueError: it has other job groups, another objective or another version.
        """
        self._latest.clear()
        self._model.load(state)

    @classmethod
    def from_state(
        cls,
        unit: str,
        state: Mapping[str, Sequence[Any]],
        coverage: float = 0.95,
        *,
        metric: str = "",
        objective: Objective = "coverage",
        limit: Limit = "auto",
    ) -> Self:
        """The profile whose ``state()`` this was, exactly.

        Raises:
            ValueError: it has other job groups, another objective or another version.
        """
        restored = cls(unit, coverage, metric=metric, objective=objective, limit=limit)
        restored.load(state)
        return restored
