"""Learns the events of jobs, one by one, into profiles, series and pending forecasts."""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection

from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import PendingForecast, Profile
from jobsight_predictor.question import Question
from jobsight_predictor.series import Series
from jobsight_server.decision.evidence import ASKED_FOR, Resource
from jobsight_server.forecasts.events import (
    AtStartRow,
    Event,
    Finished,
    ForecastDue,
    Judged,
    Observation,
    Reported,
    at_start_row,
    read_at_start,
)
from jobsight_server.forecasts.evidence import OF, Evidences, evidence_key, site_key
from jobsight_server.forecasts.prediction import five_of_series, predict
from jobsight_server.forecasts.request import ForecastConfig, ForecastJob
from jobsight_server.forecasts.stored_model import (
    PendingRow,
    RunAndMetric,
    SeriesKey,
    SeriesRow,
    StateKey,
    StateRow,
    StoredStates,
    pending_row,
    read_pending,
    read_series,
    state_of,
    state_row,
    stored_states,
)
from jobsight_server.storage.clusters import memory_of_largest_nodes

_Key = TypeVar("_Key")
_encode = msgspec.json.Encoder().encode

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


class Wanted(NamedTuple):
    """State that a learner needs for some events.

    Parts of profiles, series of (cluster, user), and pending forecasts of runs. ``pending`` and ``at_start`` are the
    runs whose forecasts it has.
    """

    states: Sequence[StateKey]
    users: Sequence[tuple[str, str]]
    runs: Sequence[int]
    pending: Set[int]
    at_start: Set[int]


class LoadedState(NamedTuple):
    """The stored state that a learner wanted."""

    states: StoredStates
    series: Sequence[tuple[SeriesKey, Series, float | None]]
    pending: Mapping[RunAndMetric, PendingForecast]
    at_start: Mapping[RunAndMetric, PendingForecast]
    largest_nodes: Mapping[str, int]


def read_known(connection: Connection, wanted: Wanted) -> LoadedState:
    """Read the wanted state."""
    return LoadedState(
        stored_states(connection, wanted.states),
        list(read_series(connection, wanted.users)),
        read_pending(connection, wanted.runs),
        read_at_start(connection, wanted.runs),
        memory_of_largest_nodes(connection),
    )


class Changes(NamedTuple):
    """Rows that a learner has changed, the runs that it has learned, and the current period of (cluster, metric) if it
    has begun since the last changes."""

    states: Sequence[StateRow]
    series: Sequence[SeriesRow]
    pending: Sequence[PendingRow]
    at_start: Sequence[AtStartRow]
    learned_runs: Sequence[int]
    periods: Mapping[tuple[str, str], int]


class Learner:
    """Learns events in order, in these metrics; ``changes`` returns the rows to store.

    It starts empty or with the stored state that it wanted; both give the same rows. Metrics share nothing: several
    learners give the same rows as one. The answer to a question about the user alone is computed after the user's last
    event, and stored with the series.
    """

    def __init__(self, config: ForecastConfig, metrics: Collection[str] = METRICS) -> None:
        self._config = config
        self._metrics = metrics
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._of_users: dict[SeriesKey, _OfUser] = {}
        self._evidence = Evidences(config)
        self._states: dict[tuple[str, str, str], StateRow] = {}
        self._loaded: set[object] = set()
        self._learned_runs: list[int] = []
        self._pending: dict[RunAndMetric, PendingForecast] = {}
        self._at_start: dict[RunAndMetric, PendingForecast] = {}
        self._events: Sequence[Event] = ()

    def wanted(self, events: Sequence[Event]) -> Wanted:
        """Return the state needed to learn these events, unless it was wanted before; ``learn_wanted`` learns them."""
        self._events = events
        metrics = list(dict.fromkeys(metric for event in events for metric in self._own(event.metrics)))
        jobs = dict.fromkeys((event.cluster, event.question) for event in events)
        runs = [
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
        for resource in self._requests_in(*self._metrics):
            keys += [evidence_key(cluster, question, resource) for cluster, question in jobs]
            keys += [site_key(cluster, resource) for cluster, _ in users]
        states, new_users = self._new(dict.fromkeys(keys)), self._new(users)
        pending, at_start = ({run_id for run_id, _ in kept} for kept in (self._pending, self._at_start))
        return Wanted(states, new_users, runs, pending, at_start)

    def learn_wanted(self, known: LoadedState) -> AllJudged:
        """Take in the wanted state, and learn the events.

        Raises:
            ValueError: the stored model is of other settings or another version.
        """
        for (cluster, metric), stored in known.states.items():
            state = state_of(stored)
            if metric.startswith(OF):
                for name, part in state.items():
                    self._evidence.load(StateKey(cluster, metric, name), part.state)
            else:
                self._profile(cluster, metric).load(state)
        for key, series, updated in known.series:
            if key.metric in self._metrics:
                self._of_users[key] = _OfUser(self._profile(key.cluster, key.metric), series, updated)
        self._pending = {key: one for key, one in known.pending.items() if key[1] in self._metrics} | self._pending
        self._at_start = {key: one for key, one in known.at_start.items() if key[1] in self._metrics} | self._at_start
        return self.learn(self._events, known.largest_nodes)

    def _own(self, metrics: Iterable[str]) -> list[str]:
        return [metric for metric in metrics if metric in self._metrics]

    @staticmethod
    def _requests_in(*metrics: str) -> list[Resource]:
        return [resource for resource in ASKED_FOR if resource in metrics]

    def _new(self, keys: Iterable[_Key]) -> list[_Key]:
        """Return the keys not read before; state read earlier may have learned since."""
        found = [key for key in keys if key not in self._loaded]
        self._loaded.update(found)
        return found

    def learn(self, events: Sequence[Event], largest_nodes: Mapping[str, int]) -> AllJudged:
        """Learn the events; return the forecasts for each finished job. No job asks for more than ``largest_nodes``
        have, by cluster.

        One metric after the other takes a quarter less time: its groups stay in the processor's cache.
        """
        judged: AllJudged = {}
        self._evidence.largest = largest_nodes
        for metric in self._metrics:
            self._learn(metric, events, judged)
        self._learned_runs += [event.job.run_id for event in events if isinstance(event, Finished)]
        return judged

    def _learn(self, metric: str, events: Sequence[Event], judged: AllJudged) -> None:
        resources = self._requests_in(metric)
        changed = [event.changed_series(metric) for event in events]
        last = {key: i for i, key in enumerate(changed)}
        for i, (event, key) in enumerate(zip(events, changed, strict=True)):
            match event:
                case ForecastDue(job, metrics, moment):
                    if metric not in metrics:
                        continue
                    if moment == "submission":
                        self._pending[job.run_id, metric] = self._forecast(job, metric)
                    else:
                        again = self._profile(job.cluster, metric).forecast_job(job.question, moment)
                        self._at_start[job.run_id, metric] = again
                case Finished(job, observations):
                    if metric in observations:
                        judged[job.run_id, metric] = self._finish(job, metric, observations[metric])
                    for resource in resources:
                        # The log always has the run time: without it, this is a late value.
                        is_late = "runtime" not in observations
                        if not is_late or metric in observations:
                            self._evidence.learn(job, resource, observations.get(metric), is_late=is_late)
                    self._forget(job, metric)
                case Reported(cluster, _, question, observation, at):
                    if key is not None:
                        self._observe(key, question, observation, at)
                        for resource in resources:
                            self._evidence.learn_report(cluster, question, resource, observation, at)
            if key is not None and last[key] == i and (own := self._of_users.get(key)) is not None:
                five = five_of_series(own.series.answer(), own.updated)
                own.answer = _encode(predict(own.profile, key, Question(user=key.user), five)).decode()

    def _forget(self, job: ForecastJob, metric: str) -> None:
        self._pending.pop((job.run_id, metric), None)
        self._at_start.pop((job.run_id, metric), None)

    def encode_state(self) -> None:
        """Encode the changed state as rows, before a transaction rather than within it."""
        for (cluster, metric), profile in self._profiles.items():
            for key, part in profile.changed_state().items():
                self._states[cluster, metric, key] = state_row(cluster, metric, key, part)
        for name, part in self._evidence.changed_state():
            self._states[name] = state_row(*name, part)

    def changes(self, _: None = None) -> Changes:
        """Return the rows to store."""
        self.encode_state()
        of_users = [
            (*key, own.series.n, json.dumps(own.series.state(), separators=(",", ":")), own.answer, own.updated)
            for key, own in sorted(self._of_users.items(), key=lambda item: item[0])
            if own.answer is not None
        ]
        periods = {key: profile.too_old() for key, profile in self._profiles.items()}
        return Changes(
            list(self._states.values()),
            of_users,
            [pending_row(key, forecast) for key, forecast in self._pending.items()],
            [at_start_row(key, again) for key, again in self._at_start.items()],
            self._learned_runs,
            {key: period for key, period in periods.items() if period is not None},
        )

    def _finish(self, job: ForecastJob, metric: str, observation: Observation | None) -> Judged:
        profile = self._profile(job.cluster, metric)
        forecast = self._pending.get((job.run_id, metric)) or self._forecast(job, metric)
        again = self._at_start.get((job.run_id, metric))
        if again is None:  # it did not wait, or it ended as it started
            is_later = job.has_waited and not self._config.requests_only
            again = profile.forecast_job(job.question, "start") if is_later else forecast
        judged = _judged(forecast, again, observation)
        if observation is not None:
            key = SeriesKey(job.cluster, job.user, metric)
            self._observe(key, job.question, observation, job.end or 0.0, (forecast, again), job.seconds)
        return judged

    def _forecast(self, job: ForecastJob, metric: str) -> PendingForecast:
        """Return the forecast at submission, with the decided or kept request, in the unit of the forecast."""
        profile = self._profile(job.cluster, metric)
        forecast = profile.forecast_job(job.question)
        for resource in self._requests_in(metric):
            per = job.shape.processors if resource == "memory" else 1
            bound = None if forecast.bound is None else forecast.bound * per
            decision = self._evidence.decide(resource, job.cluster, job.question, job.shape, bound)
            amounts = [decision.amount or job.shape.asked(resource), decision.then]
            attempts = tuple(amount / per for amount in amounts if amount)
            if attempts and attempts[0] != forecast.bound:
                forecast = forecast.asking(attempts)
        return forecast

    def _observe(
        self,
        key: SeriesKey,
        question: Question,
        observation: Observation,
        at: float,
        forecasts: tuple[PendingForecast, PendingForecast] | None = None,
        seconds: float | None = None,
    ) -> None:
        profile, value = self._profile(key.cluster, key.metric), observation.value
        forecast, again = forecasts or (None, None)
        profile.learn(question, value, forecast, seconds, lower_bound=observation.is_lower_bound, at=at, at_start=again)
        for resource in self._requests_in(key.metric):
            self._evidence.note_limits(key.cluster, resource, profile.are_limits)
        if observation.is_lower_bound or self._config.requests_only:
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


def _judged(forecast: PendingForecast, again: PendingForecast, observation: Observation | None) -> Judged:
    first = forecast.first
    was_enough = observation is not None and not observation.is_lower_bound and observation.value <= (first or 0.0)
    # Attempts after one that was enough are not needed, and take time.
    attempts = (first,) if was_enough and first is not None else forecast.attempts
    return Judged(forecast.value, forecast.bound, forecast.probability, attempts, again.value, again.probability)


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection, which would take up to a fifth of the time: many objects stay, and a thousand jobs
    leave some twenty in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
