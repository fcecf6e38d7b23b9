"""Counters: name, label (a reason, or ''), value; committed with what they count."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

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
