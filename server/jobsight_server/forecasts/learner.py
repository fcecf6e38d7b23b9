"""Learns the events of jobs, one by one, into profiles, series and pending forecasts."""

from __future__ import annotations

import gc
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, bindparam, select

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.answer import need_steps
from jobsight_predictor.profile.forecast import AtStart, PendingForecast
from jobsight_predictor.profile.groups import Part
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.forecasts.decision import ASKED_FOR, STEPS, Need, Resource, decide
from jobsight_server.forecasts.events import (
    WAITS,
    Asked,
    Event,
    Finished,
    Judged,
    LearnedUntil,
    Observation,
    Reported,
    read_at_start,
    write_at_start,
    write_learned_until,
)
from jobsight_server.forecasts.prediction import series_answer
from jobsight_server.forecasts.reader import (
    RunAndMetric,
    SeriesKey,
    StateKey,
    StateRow,
    drop_old_state,
    read_pending,
    read_series,
    read_state,
    state_row,
    write_learned,
)
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob
from jobsight_server.forecasts.such_jobs import LastRuns, finished_run, reported_run
from jobsight_server.storage.engine import of_runs
from jobsight_server.storage.schema import jobs

_Key = TypeVar("_Key")
_STILL_WAITING = select(jobs.c.id).where(jobs.c.id.in_(bindparam("runs", expanding=True)), WAITS)

OF_ALL = "*"
"""Replaces the metric in the key of a user's last runs."""

AllJudged = dict[RunAndMetric, Judged]
"""The forecasts for each run and metric."""


def learnable(value: float) -> bool:
    """Return whether a forecaster accepts the value: finite and not negative."""
    return math.isfinite(value) and 0.0 <= value <= LARGEST


@dataclass(slots=True)
class _OfUser:
    """A user's values of one metric, and the answer to a question about the user alone."""

    profile: Profile
    series: Series
    updated: float | None = None
    answer: str | None = None  # None: as stored


class Learner:
    """Learns events in order, then writes the changes.

    It starts empty or with the state from ``load_for``; both give the same rows. The answer to a question about the
    user alone is computed after the user's last event, and stored with the series.
    """

    def __init__(self, config: ForecastConfig) -> None:
        self._config = config
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._of_users: dict[SeriesKey, _OfUser] = {}
        self._last: defaultdict[tuple[str, str], LastRuns] = defaultdict(LastRuns)
        self._states: dict[tuple[str, str, str], StateRow] = {}
        self._loaded: set[object] = set()
        self._learned_runs: list[int] = []
        self.pending: dict[RunAndMetric, PendingForecast] = {}
        self.at_start: dict[RunAndMetric, AtStart] = {}

    def load_for(self, connection: Connection, events: Sequence[Event]) -> None:
        """Read the state needed to learn these events, unless it was read before.

        Raises:
            ValueError: the stored model is of other settings or another version.
        """
        metrics = list(dict.fromkeys(metric for event in events for metric in event.metrics))
        jobs = dict.fromkeys((event.cluster, event.question) for event in events)
        pending = [
            event.job.run_id for event in events if isinstance(event, Finished) and event.job.forecast_seq is not None
        ]
        asked = self._new((cluster, metric, question) for cluster, question in jobs for metric in metrics)
        users = dict.fromkeys((cluster, question.user or "") for cluster, _, question in asked)
        # Users alone, too, for their stored answers.
        asked += self._new((cluster, metric, Question(user=user)) for cluster, user in users for metric in metrics)
        keys = [
            StateKey(cluster, metric, key)
            for cluster, metric, question in asked
            for key in self._profile(cluster, metric).state_keys(question)
        ]
        keys += [StateKey(cluster, OF_ALL, user) for cluster, user in users]
        for (cluster, metric), state in read_state(connection, self._new(dict.fromkeys(keys))).items():
            if metric == OF_ALL:
                self._last |= {(cluster, user): LastRuns(part) for user, (part, _) in state.items()}
            else:
                self._profile(cluster, metric).load(state)
        for key, known, updated in read_series(connection, self._new(users)):
            self._of_users[key] = _OfUser(self._profile(key.cluster, key.metric), known, updated)
        self.pending = read_pending(connection, pending) | self.pending
        self.at_start = read_at_start(connection, pending) | self.at_start

    def _new(self, keys: Iterable[_Key]) -> list[_Key]:
        """Return the keys not read before; state read earlier may have learned since."""
        found = [key for key in keys if key not in self._loaded]
        self._loaded.update(found)
        return found

    def learn(self, events: Sequence[Event]) -> AllJudged:
        """Learn the events; return the forecasts for each finished job."""
        judged: AllJudged = {}
        last = {key: i for i, event in enumerate(events) for key in event.series}
        for i, event in enumerate(events):
            match event:
                case Asked(job, metrics, moment):
                    for metric in metrics:
                        if moment == "submission":
                            self.pending[job.run_id, metric] = self._forecast(job, metric)
                        else:
                            forecast = self._profile(job.cluster, metric).forecast_job(job.question, moment)
                            self.at_start[job.run_id, metric] = AtStart.of(forecast)
                case Finished(job, observations):
                    judged |= self._finish(job, observations)
                case Reported(cluster, metric, question, observation, at):
                    key = SeriesKey(cluster, question.user or "", metric)
                    self._observe(key, question, observation, at)
                    if metric in ASKED_FOR:
                        value, failed = observation
                        run = reported_run(question, metric, value, at, failed=failed)
                        self._last[cluster, key.user].add(run)
            for key in event.series:
                if last[key] == i and (own := self._of_users.get(key)) is not None:
                    own.answer = series_answer(own.profile, key.user, own.series, own.updated)
        return judged

    def encode_state(self) -> None:
        """Encode the changed state as rows, before a transaction rather than within it."""
        for (cluster, metric), profile in self._profiles.items():
            for key, part in profile.changed_state().items():
                self._states[cluster, metric, key] = state_row(cluster, metric, key, part)
        for (cluster, user), runs in self._last.items():
            if (state := runs.changed_state()) is not None:
                self._states[cluster, OF_ALL, user] = state_row(cluster, OF_ALL, user, Part(state, None))

    def store(self, connection: Connection, until: LearnedUntil) -> int:
        """Write the changes and the forecasts of unfinished jobs; return the number of series.

        Deletes the stored forecasts of runs that were learned, and of runs that will never be.
        """
        self.encode_state()
        of_users = [
            (*key, own.series.n, json.dumps(own.series.state(), separators=(",", ":")), own.answer, own.updated)
            for key, own in sorted(self._of_users.items(), key=lambda item: item[0])
            if own.answer is not None
        ]
        runs = list(dict.fromkeys(run_id for run_id, _ in (*self.pending, *self.at_start)))
        waiting = {run_id for (run_id,) in of_runs(connection, _STILL_WAITING, runs)}
        pending = {key: forecast for key, forecast in self.pending.items() if key[0] in waiting}
        write_learned(connection, self._states.values(), of_users, pending, self._learned_runs)
        for (cluster, metric), profile in self._profiles.items():
            if (period := profile.too_old()) is not None:
                drop_old_state(connection, cluster, metric, period)
        at_start = {key: forecast for key, forecast in self.at_start.items() if key[0] in waiting}
        write_at_start(connection, at_start, self._learned_runs)
        write_learned_until(connection, until)
        return len(of_users)

    def _finish(self, job: ForecastJob, observations: Mapping[str, Observation | None]) -> AllJudged:
        judged: AllJudged = {}
        for metric, observation in observations.items():
            profile = self._profile(job.cluster, metric)
            forecast = self.pending.get((job.run_id, metric)) or self._forecast(job, metric)
            again = self.at_start.get((job.run_id, metric))
            if again is None:  # it did not wait, or it ended as it started
                again = AtStart.of(profile.forecast_job(job.question, "start") if job.has_waited else forecast)
            judged[job.run_id, metric] = Judged(forecast, again)
            if observation is not None:
                key = SeriesKey(job.cluster, job.user, metric)
                self._observe(key, job.question, observation, job.end or 0.0, judged[job.run_id, metric], job.seconds)
        self._learn_run(job, observations)
        for metric in METRICS:
            self.pending.pop((job.run_id, metric), None)
            self.at_start.pop((job.run_id, metric), None)
        self._learned_runs.append(job.run_id)
        return judged

    def _forecast(self, job: ForecastJob, metric: str) -> PendingForecast:
        """Return the forecast at submission, with the decided request."""
        profile, question = self._profile(job.cluster, metric), job.question
        forecast = profile.forecast_job(question)
        for resource in ASKED_FOR:
            if resource == metric:
                asked_for = self._asked_for(job, resource, profile, forecast)
                if asked_for is not None and asked_for != forecast.bound:
                    forecast = forecast.asking(asked_for)
        return forecast

    def _asked_for(
        self, job: ForecastJob, resource: Resource, profile: Profile, forecast: PendingForecast
    ) -> float | None:
        """Return the decided or kept request, in the unit of the forecast; None: its bound."""
        question, last = job.question, self._last[job.cluster, job.user]
        per = question.processors or 1 if resource == "memory" else 1
        asked = (profile.requests.of(question) or 0.0) * per

        def need() -> Need:
            whole = profile.need_of(question, forecast)
            steps = [(amount * per, share) for amount, share in need_steps(profile, whole, "submission")]
            return Need(None if whole.bound is None else whole.bound * per, steps, forecast.basis == "facts")

        def decided() -> tuple[float, int]:
            such = last.similar(question)
            decision = decide(resource, asked, such.uses[resource], need, STEPS[resource], is_named=such.is_named)
            return decision.amount or asked, decision.similar

        if question.facts:  # they may differ from job to job
            return decided()[0] / per or None
        return last.decided((question.application, question.processors or 1, resource, asked), decided) / per or None

    def _learn_run(self, job: ForecastJob, observations: Mapping[str, Observation | None]) -> None:
        """Learn the run for decisions; without a run time it was learned already, and its memory is a late value."""
        last, failed = self._last[job.cluster, job.user], job.failure and FAILED_METRIC[job.failure]
        used = {
            metric: found.value
            for metric, found in observations.items()
            if found is not None and (metric == failed or not found.is_lower_bound)
        }
        if "runtime" in observations:
            last.add(finished_run(job, used))
        elif "memory" in used:
            last.fill_in(job.run_id, used["memory"] * (job.question.processors or 1))

    def _observe(
        self,
        key: SeriesKey,
        question: Question,
        observation: Observation,
        at: float,
        judged: Judged | None = None,
        seconds: float | None = None,
    ) -> None:
        profile, value = self._profile(key.cluster, key.metric), observation.value
        forecast, again = (None, None) if judged is None else judged
        profile.learn(question, value, forecast, seconds, lower_bound=observation.is_lower_bound, at=at, at_start=again)
        if observation.is_lower_bound:
            return
        if (own := self._of_users.get(key)) is None:
            own = self._of_users[key] = _OfUser(profile, Series())
        own.series.learn(value)
        # The last learned, not the latest: a run with late samples is learned after others.
        own.updated = at

    def _profile(self, cluster: str, metric: str) -> Profile:
        if (found := self._profiles.get((cluster, metric))) is None:
            found = self._profiles[cluster, metric] = self._config.profile(metric)
        return found


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection, which would take up to a fifth of the time: many objects stay, few in a cycle."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
