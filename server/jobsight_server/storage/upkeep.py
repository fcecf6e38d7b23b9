"""Retention of raw samples, and database maintenance."""

from __future__ import annotations

import threading

from sqlalchemy import Engine, text

from jobsight_server.storage.event_counts import add_event_counts

_PIECE_S = 6 * 3600.0  # of one node's samples deleted in one transaction, so that ingest never waits long

_OLDEST = text(
    "SELECT node_id, min(time) FROM (SELECT node_id, min(time) AS time FROM samples GROUP BY node_id UNION ALL "
    "SELECT node_id, min(first_time) FROM sample_chunks GROUP BY node_id) AS oldest "
    "WHERE time < :before GROUP BY node_id"
)
_IN_CHUNKS = text(
    "SELECT coalesce(sum(samples), 0) FROM sample_chunks "
    "WHERE node_id = :node_id AND first_time < :until AND last_time < :until"
)
_DELETE_CHUNKS = text(
    "DELETE FROM sample_chunks WHERE node_id = :node_id AND first_time < :until AND last_time < :until"
)
_DELETE_ROWS = text("DELETE FROM samples WHERE node_id = :node_id AND time < :until")


def delete_old(engine: Engine, before: float, stop: threading.Event | None = None) -> int:
    """Deletes what ``delete_readings`` does, and pending forecasts and sessions, older than ``before``.

    Profiles and jobs stay.

    Returns the number of samples deleted, counted as ``samples_expired``. Interrupted by ``stop`` between transactions.
    """
    # Batches make ingest idempotent; it rejects readings older than the retention, so a batch deleted here can never
    # be stored a second time.
    deleted = delete_readings(engine, before, "samples_expired", stop)
    with engine.begin() as connection:
        # Runs whose end was never logged. If it comes after all, the forecast is judged as of then.
        for table in ("pending_forecasts", "pending_at_start"):
            forgotten = "SELECT id FROM jobs WHERE start < :before AND profiled = :no"
            query = text(f"DELETE FROM {table} WHERE run_id IN ({forgotten})")
            connection.execute(query, {"before": before, "no": False})
        connection.execute(text("DELETE FROM sessions WHERE expires < :before"), {"before": before})
    return deleted


def delete_readings(engine: Engine, before: float, counted_as: str, stop: threading.Event | None = None) -> int:
    """Deletes samples of nodes and jobs, marks and acknowledged batches older than ``before``.

    A chunk goes as a whole, once all of it is older.

    Returns the number of samples deleted, which is also counted. Interrupted by ``stop`` between transactions.
    """
    deleted = 0
    with engine.connect() as connection:
        nodes = [tuple(row) for row in connection.execute(_OLDEST, {"before": before})]
        expired = text("SELECT DISTINCT node_id FROM batches WHERE last_time < :before")
        silent = [row.node_id for row in connection.execute(expired, {"before": before})]
    for node_id, first in nodes:
        until = first
        while until < before and not (stop and stop.is_set()):
            until = min(until + _PIECE_S, before)
            with engine.begin() as connection:
                place = {"node_id": node_id, "until": until}
                count = connection.execute(_IN_CHUNKS, place).scalar_one()
                connection.execute(_DELETE_CHUNKS, place)
                count += connection.execute(_DELETE_ROWS, place).rowcount
                add_event_counts(connection, {(counted_as, ""): count})
            deleted += count
    for node_id in silent:
        with engine.begin() as connection:
            key = {"node_id": node_id, "before": before}
            connection.execute(text("DELETE FROM batches WHERE node_id = :node_id AND last_time < :before"), key)
            connection.execute(text("DELETE FROM job_samples WHERE node_id = :node_id AND last_time < :before"), key)
            connection.execute(text("DELETE FROM marks WHERE node_id = :node_id AND time < :before"), key)
    return deleted
