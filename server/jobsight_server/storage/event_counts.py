"""Counters: name, label (a reason, or ''), value; days whose savings are to be counted.

Both are committed with what they count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, text

from jobsight_server.storage.engine import whole

_ADD = text(
    "INSERT INTO event_counts (name, label, value) VALUES (:name, :label, :value) "
    "ON CONFLICT (name, label) DO UPDATE SET value = event_counts.value + excluded.value"
)


def add_event_counts(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    """Adds ``counts[(name, label)]`` to the stored counts; zeros add nothing."""
    # In the same order everywhere, so that two PostgreSQL writers cannot deadlock on each other's rows.
    rows = [{"name": n, "label": label[:200], "value": v} for (n, label), v in sorted(counts.items()) if v]
    if rows:
        connection.execute(_ADD, rows)


def read_event_counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Every count by (name, label)."""
    rows = connection.execute(text("SELECT name, label, value FROM event_counts ORDER BY name, label"))
    return {(name, label): value for name, label, value in rows}


MODULUS = 2**62
MASK = MODULUS - 1  # for ``&``, which SQLite and PostgreSQL both have


# ``samples`` as they are to be read: including what ``shifts`` still has to add, in one statement, so that no reader
# sees a shift half done.
SETTLED = f"""(
    SELECT s.node_id, s.time,
        ((s.net_in_bytes & {MASK}) + coalesce(h.net_in_bytes, 0)) & {MASK} AS net_in_bytes,
        ((s.net_out_bytes & {MASK}) + coalesce(h.net_out_bytes, 0)) & {MASK} AS net_out_bytes,
        s.cpu_busy_s + coalesce(h.cpu_busy_s, 0) AS cpu_busy_s,
        s.memory_used_bytes, s.gap_s + coalesce(h.gap_s, 0) AS gap_s,
        ((s.ib_in_bytes & {MASK}) + coalesce(h.ib_in_bytes, 0)) & {MASK} AS ib_in_bytes,
        ((s.ib_out_bytes & {MASK}) + coalesce(h.ib_out_bytes, 0)) & {MASK} AS ib_out_bytes
    FROM samples s LEFT JOIN shifts h ON h.node_id = s.node_id AND h.since <= s.time AND s.time < h.until
) AS settled"""


def modulo(total: int) -> int:
    """``total`` as stored, 0 to 2**62 - 1."""
    return total % MODULUS


def risen(before: int, after: int) -> int:
    """The increase of a total from ``before`` to ``after``; negative if it fell.

    >>> risen(5, 8), risen(8, 5), risen(2**62 - 2, 3)
    (3, -3, 5)
    """
    return (after - before + MODULUS // 2) % MODULUS - MODULUS // 2


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
