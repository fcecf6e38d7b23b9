"""Everything that is counted: name, label (a reason, or ''), value; committed with what it counts."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

_ADD = text(
    "INSERT INTO tallies (name, label, value) VALUES (:name, :label, :value) "
    "ON CONFLICT (name, label) DO UPDATE SET value = tallies.value + excluded.value"
)


def add_tallies(connection: Connection, counts: Mapping[tuple[str, str], int]) -> None:
    """Adds ``counts[(name, label)]`` to what is kept; zeros add nothing."""
    # In one order everywhere, so that two writers of PostgreSQL cannot wait for each other's rows.
    rows = [{"name": n, "label": label[:200], "value": v} for (n, label), v in sorted(counts.items()) if v]
    if rows:
        connection.execute(_ADD, rows)


def read_tallies(connection: Connection) -> dict[tuple[str, str], int]:
    """Every tally by (name, label)."""
    rows = connection.execute(text("SELECT name, label, value FROM tallies ORDER BY name, label"))
    return {(name, label): value for name, label, value in rows}
