"""Locks that let only one process of a kind work on a database."""

from __future__ import annotations

import fcntl
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jobsight_server.storage.engine import database_file, release_session_lock, try_session_lock
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.fence import Fence, FencedError, take_over

log = logging.getLogger(__name__)

_LOOK_S = 1.0  # time between checks of the session that holds the lock in PostgreSQL
_LOOK_AGAIN_S = 0.2  # time between attempts at a lock that another process holds


class LockedError(UserError):
    """Another process holds the lock."""


@contextmanager
def role_lock(engine: Engine, role: str, patience_s: float = 0.0) -> Iterator[Fence]:
    """Hold the lock of ``role`` ("writer", "writer of alpha", "background") while the block runs.

    It belongs to the engine's database: a lock on a file beside SQLite, an advisory lock in PostgreSQL; both end with
    the process, however it ends. Wait up to ``patience_s`` for a lock held elsewhere. Take the lock in PostgreSQL again
    if its session is lost. Yield the fence that applies if the lock is lost to another process; this process then gets
    SIGTERM.

    Raises:
        LockedError: another process holds it.
    """
    end = functools.partial(os.kill, os.getpid(), signal.SIGTERM)
    file = database_file(engine)
    if file is not None:
        descriptor = open_lock_file(file, role)
        try:
            _wait_for(lambda: lock_file(descriptor), patience_s, _message(engine, role))
            yield take_over(engine, role, end)
        finally:
            os.close(descriptor)
        return
    session = _Session(engine, role)
    try:
        _wait_for(session.try_lock, patience_s, _message(engine, role))
        fence = take_over(engine, role, end)
        session.keep(fence)
        yield fence
    finally:
        session.close()


def is_held(engine: Engine, role: str) -> bool:
    """Return whether a process holds the PostgreSQL lock of ``role``; take it for a moment if none does."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT", reading=True) as connection:
        free = try_session_lock(connection, f"jobsight {role}")
        if free:
            release_session_lock(connection, f"jobsight {role}")
    return not free


def _wait_for(lock: Callable[[], bool], patience_s: float, message: str) -> None:
    until = time.monotonic() + patience_s
    while not lock():
        if time.monotonic() >= until:
            raise LockedError(message)
        time.sleep(_LOOK_AGAIN_S)


def open_lock_file(database: Path, role: str) -> int:
    """Return a descriptor of the lock file of ``role``, beside the database."""
    # Resolved: the file is the same through every link to the database.
    return os.open(f"{database.resolve()}.{role}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def lock_file(descriptor: int) -> bool:
    """Take the lock until the descriptor is closed; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _message(engine: Engine, role: str) -> str:
    return f"another process is the {role} of database {engine.url.database or ''}; only one is allowed"


class _Session:
    """The PostgreSQL session that holds an advisory lock, reopened if it is lost."""

    def __init__(self, engine: Engine, role: str) -> None:
        self._engine = engine
        self._name = f"jobsight {role}"
        self._connection: Connection | None = None
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    def try_lock(self) -> bool:
        """Return whether the lock is ours now."""
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if try_session_lock(connection, self._name):
            self._connection = connection
            return True
        connection.close()
        return False

    def keep(self, fence: Fence) -> None:
        """Start the thread that watches the session until ``close``."""
        self._keeper = threading.Thread(target=self._keep, args=(fence,), name=f"{fence.role} lock", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        """Release the lock."""
        self._stop.set()
        if self._keeper is not None:
            self._keeper.join()
        if self._connection is not None:
            with suppress(SQLAlchemyError):  # a lost session holds nothing
                release_session_lock(self._connection, self._name)
            self._connection.close()

    def _keep(self, fence: Fence) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                if self._connection is not None:
                    self._connection.execute(text("SELECT 1"))
                elif self.try_lock():
                    log.info("the lock of the %s has been taken again", fence.role)
                else:
                    # Still held by our own lost session, or by a successor: the epoch says which.
                    with self._engine.begin() as connection:
                        fence.check(connection)
            except FencedError as error:
                log.error("%s; ending", error)
                return
            except SQLAlchemyError:
                self._lost(fence)

    def _lost(self, fence: Fence) -> None:
        if self._connection is not None:
            log.warning("the session that held the lock of the %s was lost; taking it again", fence.role)
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


_ROLE = "server"


class ServerLock:
    """Acquired on construction, released by ``close`` or with the process.

    ``shared``: with other servers that have some roles only; the locks of the roles keep these apart. A lock on a file
    beside an SQLite database; in PostgreSQL an advisory lock, which ends with its session: call ``renew`` regularly.
    """

    def __init__(self, engine: Engine, shown: str, *, shared: bool = False) -> None:
        """
        Raises:
            LockedError: another server has it (the message names the database as ``shown``), or servers would share an
            SQLite file.
            OSError: the file cannot be created.
            DBAPIError: PostgreSQL does not answer.
        """
        self._engine, self._shared = engine, shared
        self._message = (
            f"another `jobsight serve` runs on database {shown}: stop that one first, "
            "or give this one a database of its own with --database"
        )
        self._descriptor: int | None = None
        self._session: Connection | None = None
        file = database_file(engine)
        if file is None:
            self._lock_session()
        elif shared:
            raise LockedError(f"database {shown}: several servers need PostgreSQL; see docs/operate/operations.md")
        else:
            self._lock_file(file)

    def renew(self) -> None:
        """Take the lock again if its session was lost; if the database is away, the next call tries again.

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
        if not try_session_lock(self._session, f"jobsight {_ROLE}", shared=self._shared):
            self.close()
            raise LockedError(self._message)

    def _forget_session(self) -> None:
        if self._session is not None:
            self._session.invalidate()
            self._session.close()
            self._session = None
