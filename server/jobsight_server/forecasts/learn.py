"""Learns what happened to jobs, event by event, into profiles, series and tickets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select, text

from jobsight_predictor.forecasters import LARGEST
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.series import Series
from jobsight_predictor.templates import Question
from jobsight_predictor.ticket import Ticket
from jobsight_server.forecasts.answer import answer_fields, five_fields
from jobsight_server.forecasts.job import Job
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.parts import Part, PartRow, part_row, read_parts, write_parts
from jobsight_server.forecasts.tickets import TicketKey, write_tickets
from jobsight_server.storage.schema import series

_STORE = text(
    'INSERT INTO series (cluster, "user", metric, n, state, answer, updated) '
    "VALUES (:cluster, :user, :metric, :n, :state, :answer, :updated) "
    'ON CONFLICT (cluster, "user", metric) DO UPDATE SET n = excluded.n, state = excluded.state, '
    "answer = excluded.answer, updated = excluded.updated"
)
_AT_ONCE = 500


class Key(NamedTuple):
    """Names one series."""

    cluster: str
    user: str
    metric: str


class Submitted(NamedTuple):
    """A job was submitted: what is forecast for it now is what counts."""

    job: Job
    metrics: Sequence[str]


class Finished(NamedTuple):
    """A job has ended and used this much of each metric; None: there is no value."""

    job: Job
    values: Mapping[str, float | None]


class RanOut(NamedTuple):
    """A job ran out of what was reserved for it."""

    cluster: str
    metric: str
    question: Question
    reserved: float


Event = Submitted | Finished | RanOut


def learnable(value: float) -> bool:
    """Whether a forecaster takes the value: finite and not negative."""
    return math.isfinite(value) and 0.0 <= value <= LARGEST


class Learner:
    """Takes in events in their order and then writes what has changed.

    What it begins with is empty, or what ``load`` has read for the jobs that the events are about; both give the
    same rows. The answer to a question that tells nothing but the user is made when the user's last event was taken
    in, and stored with the series.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._profiles: dict[tuple[str, str], Profile] = {}
        self._series: dict[Key, Series] = {}
        self._updated: dict[Key, float | None] = {}
        self._answers: dict[Key, str] = {}
        self._parts: dict[tuple[str, str, str], PartRow] = {}
        self.tickets: dict[TicketKey, Ticket] = {}

    def load(self, connection: Connection, jobs: Iterable[tuple[str, Question]], metrics: Iterable[str]) -> None:
        """Reads all that it takes to learn jobs (cluster, question) in these metrics.

        ValueError where other templates, or another version, had made it.
        """
        names: dict[str, dict[str, None]] = {}
        users: dict[tuple[str, str], None] = {}
        any_profile = self._method.profile("runtime")
        for cluster, question in dict.fromkeys(jobs):
            names.setdefault(cluster, {}).update(dict.fromkeys(any_profile.parts(question)))
            users[cluster, question.user or ""] = None
        for cluster, user in users:  # their stored answers are made anew
            names[cluster].update(dict.fromkeys(any_profile.parts(Question(user=user))))
        asked = [Part(cluster, metric, name) for cluster in names for metric in metrics for name in names[cluster]]
        for (cluster, metric), parts in read_parts(connection, asked).items():
            self._profile(cluster, metric).load(parts)
        for cluster, user in users:
            self._load_series(connection, cluster, user)

    def replay(self, events: Sequence[Event]) -> dict[TicketKey, Ticket]:
        """Takes in the events; returns what had been forecast for each job that has finished."""
        told: dict[TicketKey, Ticket] = {}
        last: dict[Key, int] = {key: i for i, event in enumerate(events) for key in _keys(event)}
        for i, event in enumerate(events):
            if isinstance(event, Submitted):
                for metric in event.metrics:
                    ticket = self._profile(event.job.cluster, metric).look(event.job.question)
                    self.tickets[event.job.run_id, metric] = ticket
            elif isinstance(event, Finished):
                told |= self._finish(event)
            else:
                self._profile(event.cluster, event.metric).fail(event.question, event.reserved)
            for key in _keys(event):
                if last[key] == i and key in self._series:
                    self._settle(key)
        return told

    def collect(self) -> None:
        """Makes rows of the parts that have changed; done before a transaction, it need not be done within."""
        for (cluster, metric), profile in self._profiles.items():
            for name, state in profile.changes().items():
                self._parts[cluster, metric, name] = part_row(cluster, metric, name, state)

    def store(self, connection: Connection) -> int:
        """Writes what has changed, and the tickets of jobs that have not finished; returns the number of series."""
        self.collect()
        write_parts(connection, self._parts.values())
        write_tickets(connection, self.tickets)
        rows = [self._row(key) for key in sorted(self._answers)]
        for begin in range(0, len(rows), _AT_ONCE):
            connection.execute(_STORE, rows[begin : begin + _AT_ONCE])
        return len(rows)

    def _finish(self, event: Finished) -> dict[TicketKey, Ticket]:
        job, told = event.job, {}
        for metric, value in event.values.items():
            profile = self._profile(job.cluster, metric)
            ticket = self.tickets.get((job.run_id, metric)) or profile.look(job.question)
            told[job.run_id, metric] = ticket
            if value is not None:
                profile.learn(job.question, value, ticket, job.seconds)
                key = Key(job.cluster, job.user, metric)
                known = self._series.get(key)
                if known is None:
                    known = self._series[key] = Series()
                known.learn(value)
                # The last one learned, not the latest: a run whose samples came late is learned after others.
                self._updated[key] = job.end
        for metric in METRICS:
            self.tickets.pop((job.run_id, metric), None)
        return told

    def _settle(self, key: Key) -> None:
        answer = answer_fields(self._profile(key.cluster, key.metric), Question(user=key.user))
        fields = answer | five_fields(self._series[key].answer(), self._updated[key])
        self._answers[key] = json.dumps(fields, separators=(",", ":"))

    def _profile(self, cluster: str, metric: str) -> Profile:
        found = self._profiles.get((cluster, metric))
        if found is None:
            found = self._profiles[cluster, metric] = self._method.profile(metric)
        return found

    def _load_series(self, connection: Connection, cluster: str, user: str) -> None:
        query = select(series.c.metric, series.c.state, series.c.updated).where(
            series.c.cluster == cluster, series.c.user == user
        )
        for metric, state, updated in connection.execute(query):
            key = Key(cluster, user, metric)
            self._series[key] = Series.from_state(json.loads(state))
            self._updated[key] = updated

    def _row(self, key: Key) -> dict[str, Any]:
        known = self._series[key]
        return {
            **key._asdict(),
            "n": known.n,
            "state": json.dumps(known.state(), separators=(",", ":")),
            "answer": self._answers[key],
            "updated": self._updated[key],
        }


def _keys(event: Event) -> list[Key]:
    """The series whose stored answer the event changes."""
    if isinstance(event, Finished):
        job = event.job
        return [Key(job.cluster, job.user, metric) for metric, value in event.values.items() if value is not None]
    if isinstance(event, RanOut):
        return [Key(event.cluster, event.question.user or "", event.metric)]
    return []
