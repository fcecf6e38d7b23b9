"""The forecast for a run as it starts, beside the one at its submission: its bounds have a calibration of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, bindparam, delete, select, text

from jobsight_predictor.profile.forecast import AtStart, PendingForecast
from jobsight_server.forecasts.reader import RunAndMetric
from jobsight_server.forecasts.request import COLUMNS, ForecastJob, job_of
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import jobs, pending_at_start

_AT_ONCE = 500
_WRITE = (
    "INSERT INTO pending_at_start (run_id, metric, value, bound, probability, stated_exceed, out_near_limit, "
    "forecasts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
# Removed, requeued, or learned by ``rebuild`` in the meantime: nothing will judge these.
_SWEEP = text(
    "DELETE FROM pending_at_start WHERE run_id IN (SELECT p.run_id FROM pending_at_start p "
    "JOIN jobs j ON j.id = p.run_id WHERE j.profiled = :yes OR j.state NOT IN ('running', 'ended'))"
)


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode


class Judged(NamedTuple):
    """The forecasts for a run, as of its submission and as of its start; one and the same if it did not wait."""

    submitted: PendingForecast
    started: AtStart


def read_starting(connection: Connection, before: float) -> list[ForecastJob]:
    """Runs that started before ``before`` and were not asked for again since, in order of start.

    Removed and requeued ones are included.
    """
    query = select(*COLUMNS).where(jobs.c.start_seq.is_(None), jobs.c.start < before)
    return [job_of(row) for row in connection.execute(query.order_by(jobs.c.start, jobs.c.id))]


def read_at_start(connection: Connection, runs: Sequence[int]) -> dict[RunAndMetric, AtStart]:
    """What was forecast for these runs as they started, where they had waited."""
    found: dict[RunAndMetric, AtStart] = {}
    query = select(pending_at_start).where(pending_at_start.c.run_id.in_(bindparam("runs", expanding=True)))
    for begin in range(0, len(runs), _AT_ONCE):
        for run_id, metric, *values, said in connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])}):
            found[run_id, metric] = AtStart(*values)._replace(forecasts=None if said is None else _decode(said))
    return found


def write_at_start(
    connection: Connection, pending: Mapping[RunAndMetric, AtStart], learned_runs: Sequence[int]
) -> None:
    """Stores these; deletes those of ``learned_runs``, and of runs that will never be learned."""
    if learned_runs:
        query = delete(pending_at_start).where(pending_at_start.c.run_id.in_(bindparam("runs", expanding=True)))
        for begin in range(0, len(learned_runs), _AT_ONCE):
            connection.execute(query, {"runs": list(learned_runs[begin : begin + _AT_ONCE])})
        connection.execute(_SWEEP, {"yes": True})
    write_many(connection, _WRITE, [(*key, *values[:-1], _encode(values.forecasts)) for key, values in pending.items()])
