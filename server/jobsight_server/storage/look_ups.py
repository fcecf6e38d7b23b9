"""Look-ups that bypass SQLAlchemy, for queries so frequent that its connections cost more than the answer."""

from __future__ import annotations

import os
import threading
from typing import Any

from sqlalchemy import Engine

from jobsight_server.storage.dialect import driver_sql, own_connection


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
        connection = own_connection(self._engine)
        self._kept.connection, self._kept.process = connection, os.getpid()
        return connection
