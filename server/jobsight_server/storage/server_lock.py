"""The lock of `jobsight serve` itself: one server per database, checked before anything else is done."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from jobsight_server.storage.dialect import database_file, try_session_lock
from jobsight_server.storage.lock import LockedError, lock_file, open_lock_file

log = logging.getLogger(__name__)

_ROLE = "server"


class ServerLock:
    """Acquired on construction, released by ``close`` or with the process.

    A lock on a file beside an SQLite database; in PostgreSQL an advisory lock, which ends with its session, so that
    ``renew`` must be called regularly.
    """

    def __init__(self, engine: Engine, shown: str) -> None:
        """
        Raises:
            LockedError: another server has it; ``shown`` is how the message names the database.
            OSError: the file cannot be created.
            DBAPIError: PostgreSQL does not answer.
        """
        self._engine = engine
        self._message = (
            f"another `jobsight serve` runs on database {shown}: stop that one first, "
            "or give this one a database of its own with --database"
        )
        self._descriptor: int | None = None
        self._session: Connection | None = None
        file = database_file(engine)
        if file is None:
            self._lock_session()
        else:
            self._lock_file(file)

    def renew(self) -> None:
        """Takes the lock again if its session was lost; if the database is away, the next call tries again.

        Raises:
            LockedError: another server has taken it in the meantime.
        """
        if self._session is None and self._descriptor is not None:
            return
        try:
            if self._session is not None:
                self._session.execute(text("SELECT 1"))
                return
            self._lock_session()
            log.warning("the lock on the database was lost with its session and has been taken again")
        except DBAPIError:
            self._forget_session()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._forget_session()

    def _lock_file(self, database: Path) -> None:
        self._descriptor = open_lock_file(database, _ROLE)
        if not lock_file(self._descriptor):
            self.close()
            raise LockedError(self._message)

    def _lock_session(self) -> None:
        self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not try_session_lock(self._session, f"jobsight {_ROLE}"):
            self.close()
            raise LockedError(self._message)

    def _forget_session(self) -> None:
        if self._session is not None:
            self._session.invalidate()
            self._session.close()
            self._session = None
