"""The model as rows: the state of models, users' series with their answers, and pending forecasts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, text

from jobsight_predictor.forecasters.parameters import FiveParameters
from jobsight_predictor.profile.forecast import PendingForecast
from jobsight_predictor.series import Series
from jobsight_server.storage.fetch import fetch_by_keys, write_many
from jobsight_server.storage.schema import pending_forecasts, series

RunAndMetric = tuple[int, str]
"""Run and metric."""

_AT_ONCE = 500
# Keys of state contain users' job names; PostgreSQL does not accept index entries above 2,704 bytes.
_LONGEST = 500

_READ_STATE = (
    "WITH asked(cluster, metric, key) AS (VALUES {asked}) "
    "SELECT s.cluster, s.metric, s.key, s.state FROM asked CROSS JOIN model_state s "
    "WHERE s.cluster = asked.cluster AND s.metric = asked.metric AND s.key = asked.key"
)
_READ_ANSWERS = (
    'WITH asked(cluster, "user", metric) AS (VALUES {asked}) '
    'SELECT s.cluster, s."user", s.metric, s.answer FROM asked CROSS JOIN series s '
    'WHERE s.cluster = asked.cluster AND s."user" = asked."user" AND s.metric = asked.metric'
)
_WRITE_STATE = (
    "INSERT INTO model_state (cluster, metric, key, state) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (cluster, metric, key) DO UPDATE SET state = excluded.state"
)
_WRITE_SERIES = (
    'INSERT INTO series (cluster, "user", metric, n, state, answer, updated) VALUES (?, ?, ?, ?, ?, ?, ?) '
    'ON CONFLICT (cluster, "user", metric) DO UPDATE SET n = excluded.n, state = excluded.state, '
    "answer = excluded.answer, updated = excluded.updated"
)
_WRITE_PENDING = "INSERT INTO pending_forecasts (run_id, metric, state) VALUES (?, ?, ?)"
# Removed, requeued, or learned by ``rebuild`` in the meantime: nothing will score these.
_SWEEP_PENDING = text(
    "DELETE FROM pending_forecasts WHERE run_id IN (SELECT p.run_id FROM pending_forecasts p "
    "JOIN jobs j ON j.id = p.run_id WHERE j.profiled = :yes OR j.state NOT IN ('queued', 'running', 'ended'))"
)

_encode = msgspec.json.Encoder().encode


class SeriesKey(NamedTuple):
    """Names one series."""

    cluster: str
    user: str
    metric: str


class StateKey(NamedTuple):
    """Names one piece of the profile of a metric on a cluster."""

    cluster: str
    metric: str
    key: str


StateRow = tuple[str, str, str, str]
"""Cluster, metric, key, state as JSON."""

SeriesRow = tuple[str, str, str, int, str, str, float | None]
"""Cluster, user, metric, number of values, state as JSON, answer as JSON, end of the last job learned."""


def read_state(connection: Connection, wanted: Iterable[StateKey]) -> dict[tuple[str, str], dict[str, Any]]:
    """The stored state of these: (cluster, metric) -> key -> state, as ``Profile.load`` takes it."""
    asked = {(name.cluster, name.metric, short_key(name.key)): name.key for name in wanted}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for cluster, metric, key, state in fetch_by_keys(connection, _READ_STATE, list(asked)):
        found.setdefault((cluster, metric), {})[asked[cluster, metric, key]] = msgspec.json.decode(state)
    return found


def read_answers(connection: Connection, keys: Sequence[SeriesKey]) -> dict[SeriesKey, str]:
    """The answers stored when these series last learned; series that never did are left out."""
    return {SeriesKey(*key): answer for *key, answer in fetch_by_keys(connection, _READ_ANSWERS, keys)}


def read_series(
    connection: Connection, users: Iterable[tuple[str, str]]
) -> Iterator[tuple[SeriesKey, Series, float | None]]:
    """Every series of these (cluster, user), with the end of the last job learned."""
    for cluster, user in users:
        query = select(series.c.metric, series.c.state, series.c.updated).where(
            series.c.cluster == cluster, series.c.user == user
        )
        for metric, state, updated in connection.execute(query):
            yield SeriesKey(cluster, user, metric), Series.from_state(json.loads(state)), updated


def read_parameters(connection: Connection, cluster: str, metric: str) -> FiveParameters | None:
    """The parameters of the five in the series of this metric, which all have the same; None without a series."""
    query = select(series.c.state).where(series.c.cluster == cluster, series.c.metric == metric).limit(1)
    state = connection.scalar(query)
    return None if state is None else Series.from_state(json.loads(state)).parameters


def read_pending(connection: Connection, runs: Sequence[int]) -> dict[RunAndMetric, PendingForecast]:
    """The pending forecasts of these runs."""
    found: dict[RunAndMetric, PendingForecast] = {}
    query = select(pending_forecasts).where(pending_forecasts.c.run_id.in_(bindparam("runs", expanding=True)))
    for begin in range(0, len(runs), _AT_ONCE):
        for run_id, metric, state in connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])}):
            found[run_id, metric] = PendingForecast.from_state(msgspec.json.decode(state))
    return found


def state_row(cluster: str, metric: str, key: str, state: Any) -> StateRow:
    """A row of the table ``model_state``."""
    return cluster, metric, short_key(key), _encode(state).decode()


def write_learned(
    connection: Connection,
    states: Iterable[StateRow],
    of_users: Iterable[SeriesRow],
    pending: Mapping[RunAndMetric, PendingForecast],
    learned_runs: Sequence[int],
) -> None:
    """Stores state and series, replacing existing ones, and forecasts of runs without one.

    Deletes the pending forecasts of ``learned_runs``, and of runs that will never be learned.
    """
    write_many(connection, _WRITE_STATE, list(states))
    write_many(connection, _WRITE_SERIES, list(of_users))
    if learned_runs:
        query = delete(pending_forecasts).where(pending_forecasts.c.run_id.in_(bindparam("runs", expanding=True)))
        for begin in range(0, len(learned_runs), _AT_ONCE):
            connection.execute(query, {"runs": list(learned_runs[begin : begin + _AT_ONCE])})
        connection.execute(_SWEEP_PENDING, {"yes": True})
    rows = [(run_id, metric, _encode(forecast.state()).decode()) for (run_id, metric), forecast in pending.items()]
    write_many(connection, _WRITE_PENDING, rows)


def short_key(key: str) -> str:
    """``key``, shortened for PostgreSQL's index if necessary, and still distinct from all others."""
    return key if len(key) <= _LONGEST else f"{key[:200]}#{hashlib.sha256(key.encode()).hexdigest()}"
