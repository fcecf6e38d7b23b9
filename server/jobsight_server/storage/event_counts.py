"""Counters: name, label (a reason, or ''), value; days whose savings must be counted.

Both are committed with the data that they count.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

from jobsight_server.storage.engine import whole, write_many

_ADD = (
    "INSERT INTO event_counts (name, label, value) VALUES (?, ?, ?) "
    "ON CONFLICT (name, label) DO UPDATE SET value = event_counts.value + excluded.value"
)


def add_event_counts(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    """Add ``counts[(name, label)]`` to the stored counts; zeros add nothing."""
    # In one order everywhere: two PostgreSQL writers must not deadlock on each other's rows.
    write_many(
        connection, _ADD, [(name, label[:200], value) for (name, label), value in sorted(counts.items()) if value]
    )


def read_event_counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Return every count by (name, label)."""
    rows = connection.execute(text("SELECT name, label, value FROM event_counts ORDER BY name, label"))
    return {(name, label): value for name, label, value in rows}


DAY_S = 86400.0

_OTHERWISE = (
    "profiles.attribution = 'apportioned' AND profiles.value IS NOT NULL AND profiles.shown_only <> :shown_only "
    "AND NOT profiles.lower_bound"
)


def day_of(time_s: float) -> int:
    """Return the UTC day, counted from 1970-01-01."""
    return int(time_s // DAY_S)


def mark_all(connection: Connection) -> None:
    """Mark every day on which a profiled run ended."""
    connection.execute(text(_select(connection, "FROM jobs WHERE profiled")))


def mark_apportioned(connection: Connection, shown_only: bool) -> None:
    """Mark the days with apportioned values whose ``shown_only`` has changed."""
    query = _select(connection, f"FROM profiles JOIN jobs ON jobs.id = profiles.run_id WHERE {_OTHERWISE}")
    connection.execute(text(query), {"shown_only": shown_only})


def _select(connection: Connection, which: str) -> str:
    day = whole(connection, f'jobs."end" / {DAY_S}')
    # In a SELECT of its own: SQLite would take ON CONFLICT for the condition of a join.
    days = f"SELECT day FROM (SELECT DISTINCT {day} AS day {which}) AS days WHERE true"
    return f"INSERT INTO savings_to_do (day) {days} ON CONFLICT DO NOTHING"
