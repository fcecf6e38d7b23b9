"""Rows straight from the driver, for queries that are very frequent or return very many rows."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Engine

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
        row = f"({','.join(_parameter(connection, part) for part in some[0])})"
        asked = ",".join([row] * len(some))
        yield from fetch(connection, query.format(asked=asked), tuple(part for key in some for part in key))


def write_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Runs the statement once for each row; ``?`` stands for a parameter."""
    if rows:
        connection.exec_driver_sql(driver_sql(connection, statement), list(rows))


class LookUps:
    """Reads on a driver connection that each thread of each process keeps open, outside of transactions.

    Each look-up sees what is committed, and none holds on to an old snapshot.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept = threading.local()

    def statement(self, text: str) -> str:
        """``text``, where ``?`` stands for a parameter, as ``rows`` takes it."""
        return driver_sql(self._engine, text)

    def rows(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        """All rows of the statement."""
        connection = self._connection()
        try:
            rows: list[Any] = connection.execute(statement, values).fetchall()
        except self._engine.dialect.loaded_dbapi.OperationalError:
            # The database was away or restarted since the last look-up: one attempt on a new connection.
            self.close()
            rows = self._connection().execute(statement, values).fetchall()
        return rows

    def close(self) -> None:
        """Closes the connection of the calling thread; the next look-up opens another."""
        kept = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if kept is not None:
            kept.close()

    def _connection(self) -> Any:
        kept = getattr(self._kept, "connection", None)
        if kept is not None and self._kept.process == os.getpid():
            return kept
        connection = _own_connection(self._engine)
        self._kept.connection, self._kept.process = connection, os.getpid()
        return connection


def look_ups_wait(engine: Engine) -> bool:
    """Whether a look-up may have to wait: in a file it does not, in a database server it may."""
    return not _is_sqlite(engine)


def driver_sql(database: Engine | Connection, statement: str) -> str:
    """``statement``, in which ``?`` stands for a parameter, in the driver's style."""
    return statement if _is_sqlite(database) else statement.replace("?", "%s")


def _parameter(database: Engine | Connection, value: object) -> str:
    """``?`` for a value in a VALUES list; PostgreSQL takes a bare one for text."""
    return "?::integer" if isinstance(value, int) and not _is_sqlite(database) else "?"


def _own_connection(engine: Engine) -> Any:
    """A driver connection, owned by the caller until closed, outside of transactions.

    Each statement sees what is committed, and none holds on to an old snapshot.
    """
    checked_out = engine.raw_connection()
    connection: Any = checked_out.driver_connection
    checked_out.detach()
    if not _is_sqlite(engine):
        connection.autocommit = True
    return connection


def _is_sqlite(database: Engine | Connection) -> bool:
    return database.dialect.name == "sqlite"
