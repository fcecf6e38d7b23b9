"""Learns from finished jobs; forecasts what the next one will use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from jobsight_predictor.forecasters import LARGEST, checked
from jobsight_predictor.profile.age import Part
from jobsight_predictor.profile.explain import JobForecast, MeanError, explain, mean_error
from jobsight_predictor.profile.facts import FactsHistory
from jobsight_predictor.profile.findings import Findings, gather
from jobsight_predictor.profile.forecast import AtStart, PendingForecast, weigh
from jobsight_predictor.profile.model import Model
from jobsight_predictor.profile.running import NEAR_LIMIT, Outlook
from jobsight_predictor.question import (
    Limit,
    Moment,
    Objective,
    Question,
)

NEARLY_ALL = 0.97  # share; of its limit that a job was last seen to hold that was killed for want of more
QUESTIONS_AT_MOST = 200
"""Whose forecasts are kept until something is learned."""


class Profile:
    """Learns from finished jobs of one metric on one cluster; forecasts what the next one will use.

    A forecast is judged as of the submission, when somebody had to decide: keep the result of ``forecast_job`` at that
    time, and pass it to ``learn`` when the job has ended. In a burst of a thousand jobs it differs much from the
    forecast after the first of them have ended. Without it, the job is judged by the forecast at its end.

    A job that waited may be forecast again as it starts. Votes and bounds of these forecasts are weighed and calibrated
    by how they did themselves; otherwise the model learns by those at submission.
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
        self._latest: dict[Question, tuple[Findings, dict[Moment, PendingForecast]]] = {}

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
        return explain(self._model, self.unit, question.user, self.forecast_job(question, moment), moment)

    def forecast_job(self, question: Question, moment: Moment = "submission") -> PendingForecast:
        """The current forecast for the job, to be judged when it has ended. Changes nothing.

        Jobs of a burst that ask the same question before anything new is learned share one forecast. As of their start
        they share with it what does not depend on the moment.
        """
        latest = self._latest.get(question)
        if latest is None:
            if len(self._latest) >= QUESTIONS_AT_MOST:
                self._latest.clear()
            latest = self._latest[question] = gather(self._model, question), {}
        findings, by_moment = latest
        forecast = by_moment.get(moment)
        if forecast is None:
            forecast = by_moment[moment] = weigh(self._model, question, findings, moment)
        return forecast

    def outlook(self, question: Question) -> Outlook:
        """What such a job may need in all once it runs. Changes nothing."""
        forecast, model = self.forecast_job(question, "start"), self._model
        return Outlook.of(forecast.prospect, model.near_limit.shifts, of_time=model.of_time)

    @property
    def are_limits(self) -> bool:
        """Whether jobs are held to what they request: as good as none has used more."""
        return self._model.requests.are_limits(self._model.bounds.coverage)

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

        ``at_start``: what was forecast as it started; None: it did not wait, and ``forecast`` stands for both.
        ``lower_bound``: it needed more than ``value``, as it was killed or measured in part. ``at``: when it ended, in
        seconds, UTC; what learned nothing for long is dropped. Without it, nothing is.

        Raises:
            ValueError: the value, which is named, is not a measurement; nothing changes then.
        """
        checked(value)
        if at is not None:
            self._latest.clear()
            self._model.advance(at)
        if lower_bound:
            self._learn_lower_bound(question, value, forecast, at_start)
            return
        if forecast is None:
            forecast = self.forecast_job(question)
        self._latest.clear()
        model = self._model
        keys = forecast.keys or model.keys(question)  # none with a forecast that was stored meanwhile
        request = keys.request
        again = forecast.forecasts if at_start is None or at_start.forecasts is None else at_start.forecasts
        hit = model.experts.score(question.user, forecast.forecasts, forecast.value, value, again)
        model.bounds.learn(value, question.requested_time_s)
        used_s = seconds or question.requested_time_s or 1.0
        model.n += 1
        kind, known = keys.kind, forecast.known
        began, burst, _ = model.kinds.get(kind, (0, 0, 0))
        adds = known >= began
        is_first = burst == 0
        began, burst = (model.n, 1) if adds else (began, burst + 1)
        model.kinds[kind] = began, burst, model.clock.until
        model.changed_kinds.add(kind)
        weight = burst**-0.5  # jobs of a burst share much of their fate
        if hit is not None:
            model.hit_probability.score(forecast.features, hit, weight)
        model.calibrations["submission"].score(forecast, value, used_s, weight)
        model.calibrations["start"].score(at_start or forecast, value, used_s, weight)
        self._learn_near_limit(request, value, at_start or forecast, weight)
        of_request = value if request is None else min(value / request, LARGEST)
        model.groups.learn([key for _, key in keys.groups], value, hit, known, model.n, adds)
        if keys.shares:
            model.groups.learn([key for _, key in keys.shares], of_request, hit, known, model.n, adds)
        if is_first:
            model.groups.learn(keys.firsts, of_request, None, known, model.n, None)
        model.requests.score(request, forecast.by_groups, value, used_s, model.bounds.failure())
        model.shortfalls.score(question, value)
        if question.facts:
            history = model.facts.setdefault(kind, FactsHistory())
            if forecast.by_groups is not None and forecast.by_facts is not None:
                history.score(forecast.by_groups, forecast.by_facts, value)
            history.until = model.clock.until
            history.learn(question.facts, value)
            model.changed_facts.add(kind)
        model.changed_users.add(question.user)

    def _learn_lower_bound(
        self, question: Question, value: float, forecast: PendingForecast | None, at_start: AtStart | None
    ) -> None:
        expected = self.forecast_job(question).value
        self._latest.clear()
        if expected is None or value >= expected:  # or it says nothing: such jobs need more anyway
            self._model.shortfalls.add(question, value)
        if forecast is not None:
            request = self._model.requests.of(question)
            self._learn_near_limit(request, value, at_start or forecast, 1.0, lower_bound=True)
            self._model.calibrations["submission"].score_lower_bound(forecast, value)
            self._model.calibrations["start"].score_lower_bound(at_start or forecast, value)
            self._model.is_site_changed = True

    def _learn_near_limit(
        self,
        request: float | None,
        value: float,
        said: AtStart | PendingForecast,
        weight: float,
        *,
        lower_bound: bool = False,
    ) -> None:
        """Learn whether a job that came near its limit ran out of it."""
        if request is None or said.out_near_limit is None or value < NEAR_LIMIT * request:
            return
        ran_out = value >= (NEARLY_ALL if lower_bound else 1.0) * request
        self._model.near_limit.score(said.out_near_limit, ran_out, weight)

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
