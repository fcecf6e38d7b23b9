"""The distribution of each running job's total need, updated as similar jobs end.

An outlook is made when the job starts, and again when enough of its user's jobs have ended. Few are made at a time;
pages only read them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, and_, bindparam, delete, select

from jobsight_predictor.profile.running import Outlook, memory_likely_from, time_likely_from
from jobsight_server.forecasts.request import COLUMNS, ForecastConfig, ForecastJob, job_of
from jobsight_server.forecasts.stored_model import RunAndMetric, read_profiles
from jobsight_server.storage.engine import of_runs, upsert, write_many
from jobsight_server.storage.schema import jobs, outlook_states, running_outlooks, series

FORESEEN = ("memory", "runtime")
"""Metrics that a running job may run out of."""

_AT_ONCE = 500
_NEWS = 50  # 1 / share; growth of the user's series, by one job at least, after which an outlook is made again
_TABLES = (running_outlooks, outlook_states)
_WRITE, _WRITE_STATE = map(upsert, _TABLES)
_READ = select(outlook_states.c.run_id, outlook_states.c.metric, running_outlooks.c.are_limits, outlook_states.c.state)
_READ = _READ.where(
    outlook_states.c.run_id.in_(bindparam("runs", expanding=True)),
    running_outlooks.c.run_id == outlook_states.c.run_id,
    running_outlooks.c.metric == outlook_states.c.metric,
)
_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class RunOutlook(NamedTuple):
    """The outlook of a run, in the metric's unit; ``are_limits``: requests are enforced."""

    outlook: Outlook
    are_limits: bool


_Row = tuple[int, str, int, bool, float, float]


class _Wanted(NamedTuple):
    job: ForecastJob
    metric: str
    learned: int


def refresh_outlooks(engine: Engine, config: ForecastConfig, stop: threading.Event | None = None) -> int:
    """Make missing and outdated outlooks, delete those of jobs that have ended; return how many were made."""
    with engine.connect().execution_options(reading=True) as connection:
        wanted, over = _wanted(connection)
    if over:
        with engine.begin() as connection:
            for table in _TABLES:
                of_runs(connection, delete(table).where(table.c.run_id.in_(bindparam("runs", expanding=True))), over)
    made = 0
    for begin in range(0, len(wanted), _AT_ONCE):
        if stop and stop.is_set():
            break
        with engine.connect().execution_options(reading=True) as connection:
            rows = _made(connection, config, wanted[begin : begin + _AT_ONCE])
        with engine.begin() as connection:
            write_many(connection, _WRITE, [row for row, _ in rows])
            write_many(connection, _WRITE_STATE, [(*row[:2], state) for row, state in rows])
        made += len(rows)
    return made


def read_outlooks(connection: Connection, runs: Sequence[int]) -> dict[RunAndMetric, RunOutlook]:
    """Return the outlooks of these running jobs."""
    return {
        (run, metric): RunOutlook(Outlook.from_state(_decode(state)), bool(are_limits))
        for run, metric, are_limits, state in of_runs(connection, _READ, runs)
    }


def _wanted(connection: Connection) -> tuple[list[_Wanted], list[int]]:
    """Return the outlooks to make, grouped by question, and the runs that have ended."""
    known: Mapping[RunAndMetric, int] = {
        (run_id, metric): learned
        for run_id, metric, learned in connection.execute(
            select(running_outlooks.c.run_id, running_outlooks.c.metric, running_outlooks.c.learned)
        )
    }
    found: list[_Wanted] = []
    running: set[int] = set()
    for metric in FORESEEN:
        of_user = and_(series.c.cluster == jobs.c.cluster, series.c.user == jobs.c.user, series.c.metric == metric)
        query = select(series.c.n, *COLUMNS).outerjoin_from(jobs, series, of_user).where(jobs.c.state == "running")
        for learned, *row in connection.execute(query):
            running.add(row[0])
            n, before = learned or 0, known.get((row[0], metric))
            if before is None or n - before >= max(1, before // _NEWS) or n < before:
                found.append(_Wanted(job_of(row), metric, n))
    found.sort(key=lambda wanted: (wanted.metric, wanted.job.cluster, repr(wanted.job.question)))
    return found, sorted({run_id for run_id, _ in known} - running)


def _made(connection: Connection, config: ForecastConfig, wanted: Sequence[_Wanted]) -> list[tuple[_Row, bytes]]:
    """Return rows of ``running_outlooks``, each with its state."""
    asked = [(job.cluster, metric, job.question) for job, metric, _ in wanted]
    profiles = read_profiles(connection, config, asked)
    rows = []
    for job, metric, learned in wanted:
        profile = profiles[job.cluster, metric]
        if profile is not None:  # otherwise the model is about to be retrained
            outlook = profile.outlook(job.question)
            limit = (job.given_memory_bytes if metric == "memory" else job.given_time_s) or 0.0
            likely_from = memory_likely_from if metric == "memory" else time_likely_from
            least = likely_from(outlook, limit) if limit and profile.are_limits else inf
            rows.append(((job.run_id, metric, learned, profile.are_limits, limit, least), _encode(outlook.state())))
    return rows
