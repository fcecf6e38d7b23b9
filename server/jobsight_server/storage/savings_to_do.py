"""Days whose totals must be recomputed soon, because the use of their jobs now counts differently."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from jobsight_server.storage.engine import whole

DAY_S = 86400.0

_MARK = text("INSERT INTO savings_to_do (day) VALUES (:day) ON CONFLICT DO NOTHING")
_OTHERWISE = (
    "profiles.attribution = 'apportioned' AND profiles.value IS NOT NULL AND profiles.shown_only <> :shown_only "
    "AND NOT profiles.lower_bound"
)


def day_of(time_s: float) -> int:
    """The UTC day, counted from 1970-01-01."""
    return int(time_s // DAY_S)


def mark(connection: Connection, days: Iterable[int]) -> None:
    """Marks these days."""
    rows = [{"day": day} for day in sorted(set(days))]
    if rows:
        connection.execute(_MARK, rows)


def mark_all(connection: Connection) -> None:
    """Marks every day on which a profiled run ended."""
    connection.execute(text(_select(connection, "FROM jobs WHERE profiled")))


def mark_apportioned(connection: Connection, shown_only: bool) -> None:
    """Marks the days with apportioned values whose ``shown_only`` has changed."""
    query = _select(connection, f"FROM profiles JOIN jobs ON jobs.id = profiles.run_id WHERE {_OTHERWISE}")
    connection.execute(text(query), {"shown_only": shown_only})


def _select(connection: Connection, which: str) -> str:
    day = whole(connection, f'jobs."end" / {DAY_S}')
    # In a SELECT of its own: SQLite would take ON CONFLICT for the condition of a join.
    days = f"SELECT day FROM (SELECT DISTINCT {day} AS day {which}) AS days WHERE true"
    return f"INSERT INTO savings_to_do (day) {days} ON CONFLICT DO NOTHING"
