"""Changes of resources, matches and definitions: one at a time, each with a version."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jobsight_server.storage.engine import driver_sql

# The row is made by the first change. PostgreSQL keeps it locked until the commit; SQLite has one writer anyway.
_BEGIN = """
INSERT INTO matching_state (id, version, removal_version, definition_version, next_match) VALUES (1, 1, 0, 0, 1 + ?)
ON CONFLICT (id) DO UPDATE SET version = matching_state.version + 1, next_match = matching_state.next_match + ?
RETURNING version, next_match
"""


@dataclass(frozen=True, slots=True)
class Change:
    """``version`` is what the rows that change are marked with; new matches are numbered from ``first_match``."""

    version: int
    first_match: int


def begin_change(connection: Connection, matches: int = 0) -> Change:
    """Starts a change within the caller's transaction, which all others wait for; ``matches`` numbers are reserved."""
    found = connection.exec_driver_sql(driver_sql(connection, _BEGIN), (matches, matches)).one()
    return Change(found[0], found[1] - matches)


def mark_removal(connection: Connection) -> None:
    """Has every process read all resources again: a deleted row has no version."""
    connection.exec_driver_sql("UPDATE matching_state SET removal_version = version")


def mark_definitions(connection: Connection) -> None:
    """Has every process read types, policies and objectives again."""
    connection.exec_driver_sql("UPDATE matching_state SET definition_version = version")
