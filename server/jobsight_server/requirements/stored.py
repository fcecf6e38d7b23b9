"""Learned memory requirements, as rows, and the lock under which they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from jobsight_server.forecasts.reader import short_key
from jobsight_server.storage.engine import LARGEST_ID, fetch_by_keys, lock_until_commit, write_many
from jobsight_server.storage.schema import requirements

Parts = dict[str, Any]
"""State of an estimator, by key."""

_READ = (
    "WITH asked(cluster, method, key) AS (VALUES {asked}) "
    "SELECT s.cluster, s.method, s.key, s.state FROM asked CROSS JOIN requirement_state s "
    "WHERE s.cluster = asked.cluster AND s.method = asked.method AND s.key = asked.key"
)
_WRITE = (
    "INSERT INTO requirement_state (cluster, method, key, state) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (cluster, method, key) DO UPDATE SET state = excluded.state"
)


def lock_requirements(connection: Connection) -> None:
    """Keeps others from asking or reporting until the transaction ends."""
    lock_until_commit(connection, "jobsight requirements")


def read_requirement(connection: Connection, number: int) -> Row[Any] | None:
    """The row of one requirement; None if there is none, or no longer."""
    if not 0 < number <= LARGEST_ID:
        return None
    return connection.execute(select(requirements).where(requirements.c.id == number)).first()


def read_parts(connection: Connection, cluster: str, method: str, wanted: Iterable[str]) -> Parts:
    """The stored state of these parts of a method."""
    asked = {(cluster, method, short_key(key)): key for key in wanted}
    rows = fetch_by_keys(connection, _READ, list(asked))
    return {asked[of, name, key]: msgspec.json.decode(state) for of, name, key, state in rows}


def write_parts(connection: Connection, cluster: str, method: str, parts: Mapping[str, Any]) -> None:
    """Stores them over those that were there."""
    rows = [(cluster, method, short_key(key), msgspec.json.encode(part).decode()) for key, part in parts.items()]
    write_many(connection, _WRITE, rows)
