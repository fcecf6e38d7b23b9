"""Counts of events by name and label, committed with the data that they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, text

EventCounts = Counter[tuple[str, str]]
"""By name and label."""

_ADD = text(
    "INSERT INTO event_counts (name, label, value) VALUES (:name, :label, :value) "
    "ON CONFLICT (name, label) DO UPDATE SET value = event_counts.value + excluded.value"
)


def add_event_counts(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    """Add ``counts[(name, label)]`` to the stored counts; zeros add nothing."""
    # In one order everywhere: two PostgreSQL writers must not deadlock on each other's rows.
    rows = [
        {"name": name, "label": label[:200], "value": value} for (name, label), value in sorted(counts.items()) if value
    ]
    if rows:
        connection.execute(_ADD, rows)


def read_event_counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Return every count by (name, label)."""
    rows = connection.execute(text("SELECT name, label, value FROM event_counts ORDER BY name, label"))
    return {(row.name, row.label): row.value for row in rows}
