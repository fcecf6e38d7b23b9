"""Rows straight from the driver, for queries that are asked very often or give very many rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection


def fetch(connection: Connection, query: str, parameters: tuple[Any, ...]) -> list[Any]:
    """All rows, past SQLAlchemy's, which cost as much again as the reading does; ``?`` stands for a parameter."""
    if connection.dialect.name != "sqlite":
        query = query.replace("?", "%s")
    cursor = connection.exec_driver_sql(query, parameters).cursor
    assert cursor is not None
    rows: list[Any] = list(cursor.fetchall())
    return rows


def write_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Runs the statement once for each row; ``?`` stands for a parameter."""
    if rows:
        if connection.dialect.name != "sqlite":
            statement = statement.replace("?", "%s")
        connection.exec_driver_sql(statement, list(rows))
