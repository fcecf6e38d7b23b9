"""Learns the events of jobs, one by one, into profiles, series and pending forecasts."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.forecasts.config import ForecastConfig
from jobsight_server.forecasts.events import Event, Finished, Observation, Reported, Submitted
from jobsight_server.forecasts.group_series import GroupSeries, UserGroupKey
from jobsight_server.forecasts.job import ForecastJob
from jobsight_server.forecasts.prediction import series_answer
from jobsight_server.forecasts.stored import (
    RunAndMetric,
    SeriesKey,
    StateKey,
    StateRow,
    read_pending,
    read_series,
    read_state,
    state_row,
    write_learned,
)


def learnable(value: float) -> bool:
    """Whether a forecaster accepts the value: finite and not negative."""
    return math.isfinite(value) and 0.0 <= value <= LARGEST


@dataclass(slots=True)
class _OfUser:
    """A user's own values of one metric, and the answer to a question about the user alone."""

    profile: Profile
    series: Series
    updated: float | None = None
    answer: str | None = None  # None: as stored


class Learner:
    """Learns events in order and then writes what has changed.

    It starts empty, or with what ``load`` has read for the jobs of the events; both give the same rows. The answer to a
    question about the user alone is computed when the user's last event has been learned, and stored with the series.
    """

    def __init__(self, config: ForecastConfig) -> None:
        self._config = config
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._of_users: dict[SeriesKey, _OfUser] = {}
        self._states: dict[tuple[str, str, str], StateRow] = {}
        self._of_groups = GroupSeries(config)
        self.pending: dict[RunAndMetric, PendingForecast] = {}

    def load(
        self,
        connection: Connection,
        jobs: Iterable[tuple[str, Question]],
        metrics: Iterable[str],
        pending: Sequence[int] = (),
    ) -> None:
        """Reads everything needed to learn jobs (cluster, question) in these metrics.

        ``pending``: the runs that were forecast when they were submitted.

        Raises:
            ValueError: the stored model is of other settings or another version.
        """
        keys: dict[tuple[str, str], None] = {}
        users: dict[tuple[str, str], None] = {}
        groups: dict[UserGroupKey, None] = {}
        any_profile = self._config.profile("runtime")
        for cluster, question in dict.fromkeys(jobs):
            keys |= dict.fromkeys((cluster, key) for key in any_profile.state_keys(question))
            users[cluster, question.user or ""] = None
            groups |= dict.fromkeys(self._of_groups.keys(cluster, question))
        for cluster, user in users:  # for their stored answers
            keys |= dict.fromkeys((cluster, key) for key in any_profile.state_keys(Question(user=user)))
        asked = [StateKey(cluster, metric, key) for metric in metrics for cluster, key in keys]
        for (cluster, metric), state in read_state(connection, asked).items():
            self._profile(cluster, metric).load(state)
        for key, known, updated in read_series(connection, users):
            if known.parameters != self._config.parameters(key.metric):
                raise ValueError("this series was learned with another window, bins or alpha: retrain on all jobs")
            self._of_users[key] = _OfUser(self._profile(key.cluster, key.metric), known, updated)
        self._of_groups.load(connection, groups)
        self.pending = read_pending(connection, pending)

    def learn(self, events: Sequence[Event]) -> dict[RunAndMetric, PendingForecast]:
        """Learns the events; returns the forecast for each finished job."""
        judged: dict[RunAndMetric, PendingForecast] = {}
        last = {key: i for i, event in enumerate(events) for key in event.series}
        for i, event in enumerate(events):
            match event:
                case Submitted(job, metrics):
                    for metric in metrics:
                        forecast = self._profile(job.cluster, metric).forecast_job(job.question)
                        self.pending[job.run_id, metric] = forecast
                case Finished(job, observations):
                    judged |= self._finish(job, observations)
                case Reported(cluster, metric, question, observation, at):
                    key = SeriesKey(cluster, question.user or "", metric)
                    self._observe(key, question, observation, at)
            for key in event.series:
                if last[key] == i and (own := self._of_users.get(key)) is not None:
                    own.answer = series_answer(own.profile, key.user, own.series, own.updated)
        return judged

    def encode_state(self) -> None:
        """Encodes the changed state as rows, before a transaction rather than within it."""
        for (cluster, metric), profile in self._profiles.items():
            for key, state in profile.changed_state().items():
                self._states[cluster, metric, key] = state_row(cluster, metric, key, state)

    def store(self, connection: Connection, learned_runs: Sequence[int] = ()) -> int:
        """Writes what has changed, and the forecasts of unfinished jobs; returns the number of series.

        Deletes the stored forecasts of ``learned_runs``, and of runs that will never be learned.
        """
        self.encode_state()
        of_users = [
            (*key, own.series.n, json.dumps(own.series.state(), separators=(",", ":")), own.answer, own.updated)
            for key, own in sorted(self._of_users.items(), key=lambda item: item[0])
            if own.answer is not None
        ]
        self._of_groups.store(connection)
        write_learned(connection, self._states.values(), of_users, self.pending, learned_runs)
        return len(of_users)

    def _finish(
        self, job: ForecastJob, observations: Mapping[str, Observation | None]
    ) -> dict[RunAndMetric, PendingForecast]:
        judged = {}
        for metric, observation in observations.items():
            profile = self._profile(job.cluster, metric)
            forecast = self.pending.get((job.run_id, metric)) or profile.forecast_job(job.question)
            judged[job.run_id, metric] = forecast
            if observation is not None:
                key = SeriesKey(job.cluster, job.user, metric)
                self._observe(key, job.question, observation, job.end or 0.0, forecast, job.seconds)
                if not observation.is_lower_bound:
                    self._of_groups.learn(job, metric, observation.value)
        for metric in METRICS:
            self.pending.pop((job.run_id, metric), None)
        return judged

    def _observe(
        self,
        key: SeriesKey,
        question: Question,
        observation: Observation,
        at: float,
        forecast: PendingForecast | None = None,
        seconds: float | None = None,
    ) -> None:
        profile, value = self._profile(key.cluster, key.metric), observation.value
        profile.learn(question, value, forecast, seconds, lower_bound=observation.is_lower_bound)
        if observation.is_lower_bound:
            return
        own = self._of_users.get(key)
        if own is None:
            own = self._of_users[key] = _OfUser(profile, Series(self._config.parameters(key.metric)))
        own.series.learn(value)
        # The last one learned, not the latest: a run with late samples is learned after others.
        own.updated = at

    def _profile(self, cluster: str, metric: str) -> Profile:
        found = self._profiles.get((cluster, metric))
        if found is None:
            found = self._profiles[cluster, metric] = self._config.profile(metric)
        return found


@contextmanager
def no_collection() -> Iterator[None]:
    """Many objects are created to stay, none in a cycle: garbage collection would take up to a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
