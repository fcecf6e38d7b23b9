"""Retention of raw samples, and database maintenance."""

from __future__ import annotations

import threading

from sqlalchemy import Connection, Engine, delete, func, select

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import lock_until_commit
from jobsight_server.storage.readings.samples import lock_name
from jobsight_server.storage.readings.summarise import delete_hours, summarise_before
from jobsight_server.storage.schema import (
    forecast_changes,
    gpu_samples,
    job_samples,
    jobs,
    marks,
    pending_at_start,
    pending_forecasts,
    readings,
    sessions,
)

_PIECE_S = 6 * 3600.0  # most samples of a node deleted in one transaction: ingest must not wait long

_FIRST = func.min(readings.c.first_time)
# Tables with ``node_id``, and the time of their rows.
_BESIDE = ((job_samples, job_samples.c.last_time), (gpu_samples, gpu_samples.c.last_time), (marks, marks.c.time))


def delete_old(engine: Engine, before: float, stop: threading.Event | None = None) -> int:
    """Delete old readings (``delete_readings``), pending forecasts, their changes and sessions, older than ``before``.

    Profiles, jobs and summaries of readings by day stay; summaries by hour stay for a year more.

    Returns the number of samples deleted, counted as ``samples_expired``. Interrupted by ``stop`` between transactions.
    """
    # Batches make ingest idempotent; it rejects readings older than the retention, so a batch deleted here cannot be
    # stored again.
    deleted = delete_readings(engine, before, "samples_expired", stop)
    with engine.begin() as connection:
        # Runs whose end was never logged. If the end is logged later, the forecast is judged as of then.
        forgotten = select(jobs.c.id).where(jobs.c.start < before, ~jobs.c.profiled)
        for pending in (pending_forecasts, pending_at_start):
            connection.execute(delete(pending).where(pending.c.run_id.in_(forgotten)))
        connection.execute(delete(forecast_changes).where(forecast_changes.c.time < before))
        connection.execute(delete(sessions).where(sessions.c.expires < before))
        delete_hours(connection, before)
    return deleted


def delete_readings(engine: Engine, before: float, counted_as: str, stop: threading.Event | None = None) -> int:
    """Delete readings of nodes and jobs, marks and acknowledged batches older than ``before``.

    Readings of nodes leave their summaries, in the same transaction. A row goes as a whole, once all of it is older,
    and none that begins later goes before it.

    Returns the number of samples deleted, which is also counted. Interrupted by ``stop`` between transactions.
    """
    deleted = 0
    with engine.connect() as connection:
        older = select(readings.c.node_id, _FIRST).where(readings.c.first_time < before).group_by(readings.c.node_id)
        nodes = connection.execute(older).all()
    for node_id, first in nodes:
        until = first
        while until < before and not (stop and stop.is_set()):
            until = min(until + _PIECE_S, before)
            with engine.begin() as connection:
                count = _delete_samples(connection, node_id, first, until)
                add_event_counts(connection, {(counted_as, ""): count})
            deleted += count
        with engine.begin() as connection:
            for table, time in _BESIDE:
                connection.execute(delete(table).where(table.c.node_id == node_id, time < until))
    return deleted


def _delete_samples(connection: Connection, node_id: int, first: float, until: float) -> int:
    """Summarise and delete the node's readings from ``first``, the oldest, to before ``until``; return how many."""
    lock_until_commit(connection, lock_name(node_id))
    of_node, time = readings.c.node_id == node_id, readings.c.first_time
    first_kept = connection.scalar(select(_FIRST).where(of_node, time < until, readings.c.last_time >= until))
    until = until if first_kept is None else first_kept
    if until <= first:
        return 0
    older = (of_node, time < until)
    summarise_before(connection, node_id, until)
    count = connection.scalar(select(func.sum(readings.c.samples)).where(*older))
    connection.execute(delete(readings).where(*older))
    return count or 0
