"""Retention of raw samples, and database maintenance."""

from __future__ import annotations

import threading

from sqlalchemy import Connection, Engine, text

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.storage.engine import lock_until_commit
from jobsight_server.storage.readings.samples import lock_name
from jobsight_server.storage.readings.summarise import delete_hours, summarise_before

_PIECE_S = 6 * 3600.0  # most samples of a node deleted in one transaction: ingest must not wait long

_OLDEST = text("SELECT node_id, min(first_time) FROM readings WHERE first_time < :before GROUP BY node_id")
_PARTLY_OLDER = text(
    "SELECT min(first_time) FROM readings WHERE node_id = :node_id AND first_time < :until AND last_time >= :until"
)
_STORED = text("SELECT coalesce(sum(samples), 0) FROM readings WHERE node_id = :node_id AND first_time < :until")
_DELETE = text("DELETE FROM readings WHERE node_id = :node_id AND first_time < :until")
# Table and column.
_BESIDE = (("job_samples", "last_time"), ("gpu_samples", "last_time"), ("marks", "time"))


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
        for table in ("pending_forecasts", "pending_at_start"):
            forgotten = "SELECT id FROM jobs WHERE start < :before AND profiled = :no"
            query = text(f"DELETE FROM {table} WHERE run_id IN ({forgotten})")
            connection.execute(query, {"before": before, "no": False})
        connection.execute(text("DELETE FROM forecast_changes WHERE time < :before"), {"before": before})
        connection.execute(text("DELETE FROM sessions WHERE expires < :before"), {"before": before})
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
        nodes = [tuple(row) for row in connection.execute(_OLDEST, {"before": before})]
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
                query = text(f"DELETE FROM {table} WHERE node_id = :node_id AND {time} < :until")
                connection.execute(query, {"node_id": node_id, "until": until})
    return deleted


def _delete_samples(connection: Connection, node_id: int, first: float, until: float) -> int:
    """Summarise and delete the node's readings from ``first``, the oldest, to before ``until``; return how many."""
    lock_until_commit(connection, lock_name(node_id))
    first_kept = connection.execute(_PARTLY_OLDER, {"node_id": node_id, "until": until}).scalar()
    if first_kept is not None and first_kept <= first:
        return 0
    place = {"node_id": node_id, "until": until if first_kept is None else first_kept}
    summarise_before(connection, node_id, place["until"])
    count: int = connection.execute(_STORED, place).scalar_one()
    connection.execute(_DELETE, place)
    return count
