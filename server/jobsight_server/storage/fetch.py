"""Rows straight from the driver, for queries that are very frequent or return very many rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from jobsight_server.storage.dialect import driver_sql, parameter

_KEYS_AT_ONCE = 300  # below the number of parameters that any SQLite accepts


def fetch(connection: Connection, query: str, parameters: tuple[Any, ...]) -> list[Any]:
    """All rows, bypassing SQLAlchemy's, which cost as much again as reading; ``?`` stands for a parameter."""
    cursor = connection.exec_driver_sql(driver_sql(connection, query), parameters).cursor
    assert cursor is not None
    rows: list[Any] = list(cursor.fetchall())
    return rows


def fetch_by_keys(connection: Connection, query: str, keys: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """The rows of ``query`` for all ``keys``, in few statements.

    ``{asked}`` in it stands for the keys, as in ``WITH asked(a, b) AS (VALUES {asked}) SELECT ... FROM asked CROSS JOIN
    t WHERE t.a = asked.a AND ...``: the keys come first and are joined in this order, because SQLite would scan the
    whole table for ``(a, b) IN (VALUES ...)``.
    """
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[begin : begin + _KEYS_AT_ONCE]
        row = f"({','.join(parameter(connection, part) for part in some[0])})"
        asked = ",".join([row] * len(some))
        yield from fetch(connection, query.format(asked=asked), tuple(part for key in some for part in key))


def write_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Runs the statement once for each row; ``?`` stands for a parameter."""
    if rows:
        connection.exec_driver_sql(driver_sql(connection, statement), list(rows))
