"""Forecasts the next job's use, explains the forecast, and learns from finished jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from typing import Any

from jobsight_predictor.forecasters.base import checked
from jobsight_predictor.profile.calibration import NEARLY_ALL
from jobsight_predictor.profile.forecast import PendingForecast, SimilarJobs, limit_of, similar_jobs, weigh
from jobsight_predictor.profile.groups import CANDIDATES, Group
from jobsight_predictor.profile.model import Model
from jobsight_predictor.profile.reserve import Basis, exceeding, needs_of
from jobsight_predictor.profile.running import Outlook
from jobsight_predictor.question import (
    JOB_GROUPS,
    MOMENTS,
    SHARE,
    SHARE_OF_REQUEST,
    SHARES,
    GroupKey,
    Moment,
    Question,
    label,
    level_name,
    user_key,
)
from jobsight_predictor.series import NEAR

QUESTIONS_AT_MOST = 200
"""Cached forecasts; cleared whenever the model learns."""

NO_HISTORY = "no history: no job with a value has ended on this cluster yet"

_GROUPS = (*map(label, JOB_GROUPS), *(label(group) + SHARE_OF_REQUEST for group in SHARES))
_CANDIDATE_NAMES = tuple(f"{candidate} by {group}" for group in _GROUPS for candidate in CANDIDATES)
"""Names in answers, by the place of a group's candidate among all."""

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


class Profile(Model):
    """Learns from finished jobs of one metric on one cluster; forecasts the next one's use.

    Forecasts are scored as of submission, when the user had to decide: keep the result of ``forecast_job`` and pass it
    to ``learn`` when the job has ended. In a burst of a thousand jobs it differs much from a forecast after the first
    ones have ended. Without it, the job is scored on the forecast at its end.

    A job that waited may be forecast again as it starts. These forecasts have separate weights and calibration; the
    rest of the model learns from those at submission.
    """

    def __init__(self, unit: str, coverage: float = 0.95, *, metric: str = "") -> None:
        """``metric``: users may request memory and runtime."""
        super().__init__(unit, coverage, metric=metric)
        # Cleared whenever something is learned.
        self._latest: dict[Question, tuple[SimilarJobs, SimilarJobs, dict[tuple[Moment, bool], PendingForecast]]] = {}

    def load(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Load parts as ``Model.load`` does."""
        self._latest.clear()
        super().load(state)

    def forget(self, names: Iterable[str]) -> None:
        """Drop parts as ``Model.forget`` does."""
        self._latest.clear()
        super().forget(names)

    def answer(self, question: Question, moment: Moment = "submission") -> JobForecast:
        """Answer with the job's expected use, its reservation, their probabilities and basis. Changes nothing."""
        forecast = self.forecast_job(question, moment)
        need = self.need_of(question, forecast, moment)
        calibration = self.calibrations[moment]
        held, correct = calibration.held, calibration.exceeding.correct
        value, forecaster, level, n, runner_up = forecast.value, None, None, 0, None
        last_values: tuple[float, ...] = ()
        if value is not None:
            assert forecast.keys is not None
            forecaster, key, group = self._source(forecast, value)
            level, n = level_name(key), group.n
            scale = (forecast.keys.request or 1.0) if key[0] & SHARE else 1.0
            last_values = tuple([last * scale for last in group.recent])
            for _, other in forecast.ranking:
                if abs(other - value) > DIFFERENT * value:
                    its_forecaster, its_key, _ = self._source(forecast, other)
                    runner_up = RunnerUp(other, its_forecaster, level_name(its_key))
                    break
        exceed_probability = forecast.exceed_probability
        if forecast.limit < inf and forecast.bound is not None and forecast.basis == "request":
            exceed_probability = correct(exceeding(need.prospect, forecast.bound))
        needs = needs_of(need.prospect)
        mores = calibration.exceeding.correct_all([more for _, more in needs])
        # A larger amount keeps the share of a smaller one where their bins of probabilities, corrected singly, differ.
        shares = accumulate([1.0 - more for more in mores], max)
        return JobForecast(
            value=value,
            unit=self.unit,
            forecaster=forecaster,
            level=level,
            n=n,
            probability=forecast.probability,
            bound=forecast.bound,
            bound_basis=forecast.basis,
            need=need.bound,
            need_steps=tuple([(amount, share) for (amount, _), share in zip(needs, shares, strict=True)]),
            limited_by_request=forecast.bound is not None and (need.bound or 0.0) > forecast.bound,
            attempts=forecast.attempts,
            exceed_probability=exceed_probability,
            coverage=self.bounds.coverage,
            observed_coverage=held.coverage,
            observed_cost_coverage=held.cost_coverage,
            runner_up=runner_up,
            last_values=last_values,
            reason=NO_HISTORY if value is None else None,
        )

    def need_of(self, question: Question, forecast: PendingForecast, moment: Moment = "submission") -> PendingForecast:
        """Return this current ``forecast`` without the limit of the job's request. Changes nothing."""
        return self.forecast_job(question, moment, cut=False) if forecast.limit < inf else forecast

    def forecast_job(self, question: Question, moment: Moment = "submission", *, cut: bool = True) -> PendingForecast:
        """Forecast the job; score the result when it has ended. Changes nothing.

        ``cut``: limit it to the request, where requests are limits.

        Jobs of a burst with the same question share one forecast until something is learned. A forecast at start shares
        the parts that do not depend on the moment.
        """
        found = self._latest.get(question)
        if found is None:
            if len(self._latest) >= QUESTIONS_AT_MOST:
                self._latest.clear()
            whole = similar_jobs(self, question)
            limit = limit_of(self, whole.keys)
            found = self._latest[question] = whole, whole if limit is None else whole.held_to(limit), {}
        whole, held, forecasts = found
        similar = held if cut else whole
        forecast = forecasts.get((moment, similar is whole))
        if forecast is None:
            forecast = forecasts[moment, similar is whole] = weigh(self, question, similar, moment)
        return forecast

    def outlook(self, question: Question) -> Outlook:
        """Return the distribution of the job's total need, for when it runs. Changes nothing."""
        forecast = self.forecast_job(question, "start")
        if self.of_time:
            return Outlook.of(forecast.prospect, chances=self.limits.chances(self.keys(question).user))
        return Outlook.of(forecast.prospect, self.near_limit.correction.shifts)

    def mean_error(self, user: str | None) -> MeanError | None:
        """Compare the answers with the user's best single candidate in hindsight; None for a user without jobs."""
        losses = self.experts.users.get(user_key(user))
        if losses is None:
            return None
        accuracies = [accuracy for of_group in losses.accuracies for accuracy in of_group]
        best = max(range(len(accuracies)), key=accuracies.__getitem__)
        of_best = losses.jobs - accuracies[best]
        return MeanError(losses.jobs, losses.answered / losses.jobs, of_best / losses.jobs, _CANDIDATE_NAMES[best])

    def learn(
        self,
        question: Question,
        value: float,
        forecast: PendingForecast | None = None,
        seconds: float | None = None,
        *,
        lower_bound: bool = False,
        at: float | None = None,
        at_start: PendingForecast | None = None,
    ) -> None:
        """Score the forecast of the job, then learn its use, in ``seconds`` if known.

        ``at_start``: the forecast as it started; None: it did not wait, and ``forecast`` counts for both.
        ``lower_bound``: it needed more than ``value``, as it was killed or measured in part. ``at``: when it ended, in
        seconds, UTC; groups without jobs for a year are removed. Without it, none are.

        Raises:
            ValueError: the value, which is named, is not a measurement; nothing changes then.
        """
        checked(value)
        self._latest.clear()
        self._is_site_changed = True
        if at is not None:
            self._advance(at)
        if lower_bound:
            self._learn_lower_bound(question, value, forecast, at_start)
            return
        if forecast is None:
            forecast = self.forecast_job(question)
        self._latest.clear()
        self.n += 1
        again = at_start or forecast
        keys = forecast.keys or self.keys(question)  # none with a forecast stored meanwhile
        begins_burst, is_first, weight = self.bursts.to_learn(keys.application).add(forecast.known, self.n)
        hit = None if forecast.value is None else abs(forecast.value - value) <= NEAR * value
        ran_s = seconds or question.requested_time_s or 1.0
        self.experts.learn(keys.user, value, forecast.forecasts, again.forecasts, forecast.value, hit)
        self.bounds.learn(value, question.requested_time_s)
        if hit is not None:
            self.hit_probability.learn(forecast.features, hit, weight)
        for moment, made in zip(MOMENTS, (forecast, again), strict=True):
            self.calibrations[moment].learn(made.bound, made.stated_exceed, value, ran_s, weight)
        if self.of_time:
            self.limits.learn(keys.user, keys.request, value, 1.0)
        else:
            self.near_limit.learn(keys.request, value, again.out_near_limit, 1.0, weight)
        self.groups.learn(
            keys, value, hit, known=forecast.known, now=self.n, begins_burst=begins_burst, is_first=is_first
        )
        self.requests.learn(keys.request, forecast.by_groups, value, ran_s)  # by bounds that have learned
        self.shortfalls.learn(keys, value)
        for application in keys.facts:
            self.facts.learn(application, question.facts, value, forecast.by_groups, forecast.by_facts)

    def _learn_lower_bound(
        self, question: Question, value: float, forecast: PendingForecast | None, at_start: PendingForecast | None
    ) -> None:
        expected = self.forecast_job(question).value
        self._latest.clear()
        if expected is None or value >= expected:  # otherwise uninformative: such jobs need more anyway
            self.shortfalls.to_learn(self.keys(question).application).add(value)
        request = self.requests.of(question)
        if self.of_time:
            self.limits.learn(self.keys(question).user, request, value, NEARLY_ALL)
        if forecast is not None:
            again = at_start or forecast
            if not self.of_time:
                self.near_limit.learn(request, value, again.out_near_limit, NEARLY_ALL, 1.0)
            for moment, made in zip(MOMENTS, (forecast, again), strict=True):
                self.calibrations[moment].learn_lower_bound(made.bound, made.stated_exceed, value)

    def _source(self, forecast: PendingForecast, value: float) -> tuple[str, GroupKey, Group]:
        """Return candidate, key and group of the most specific group that forecast ``value``, by the greatest
        weight."""
        assert forecast.keys is not None
        width, keys = len(CANDIDATES), dict([*forecast.keys.values, *forecast.keys.shares])
        for k, (number, of_group) in enumerate(forecast.forecasts):
            if value in of_group:
                weights = forecast.weights[k * width : (k + 1) * width]
                best = max([i for i in range(width) if of_group[i] == value], key=weights.__getitem__)
                return CANDIDATES[best], keys[number], self.groups[keys[number]]
        for key in forecast.keys.first_jobs:  # of a new application
            if (group := self.groups.get(key)) is not None:
                return CANDIDATES[1], key, group
        raise LookupError(f"no candidate forecast {value!r}")
