"""Locks that let only one process of a kind work on a database, and fencing numbers.

A lock decides who may start. It cannot stop a process whose lock ended with a lost session, or whose lock file was
deleted, while a second one took over. So each holder of a role takes the next *epoch* at its start, and each of its
transactions first checks that the epoch is still its own. PostgreSQL keeps the row locked until the transaction ends
(``FOR SHARE``): a successor waits for running ones; SQLite has one writing transaction at a time anyway.
"""

from __future__ import annotations

import fcntl
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, event, text, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from jobsight_server.ground.errors import FencedError, UserError
from jobsight_server.storage.engine import (
    by_driver,
    database_file,
    for_share,
    insert_into,
    release_session_lock,
    try_session_lock,
)
from jobsight_server.storage.schema import role_epochs

_RAISED = {"epoch": role_epochs.c.epoch + 1}
_LOOK = "SELECT epoch FROM role_epochs WHERE role = ?"


@dataclass(frozen=True, slots=True)
class Fence:
    """The epoch of one holder of ``role``. ``end`` ends the process that holds it."""

    role: str
    epoch: int
    end: Callable[[], None]

    def check(self, connection: Connection) -> None:
        """Check that this holder has the role, and keep it until the transaction ends.

        Raises:
            FencedError: another process has taken over; ``end`` was called.
        """
        # SQLAlchemy cannot execute its own statements while a transaction begins.
        (epoch,) = by_driver(connection, _LOOK + for_share(connection), (self.role,)).fetchone() or (None,)
        if epoch != self.epoch:
            self.end()
            raise FencedError(f"another process has taken over as {self.role}: epoch {epoch}, here {self.epoch}")

    def guard(self, engine: Engine) -> Engine:
        """Return ``engine``, with the check at the start of each transaction that may write."""
        guarded = engine.execution_options()

        @event.listens_for(guarded, "begin")
        def on_begin(connection: Connection) -> None:
            if not connection.get_execution_options().get("reading", False):
                self.check(connection)

        return guarded


def take_over(engine: Engine, role: str, end: Callable[[], None]) -> Fence:
    """Return the next epoch of ``role``; fence off the previous holder, and writers of the same clusters."""
    with engine.begin() as connection:
        if role.startswith("writer"):
            others = "writer of %" if role == "writer" else "writer"
            connection.execute(update(role_epochs).where(role_epochs.c.role.like(others)).values(_RAISED))
        first = insert_into(connection, role_epochs).values(role=role, epoch=1)
        taken = first.on_conflict_do_update(index_elements=["role"], set_=_RAISED).returning(role_epochs.c.epoch)
        epoch = connection.execute(taken).scalar_one()
    return Fence(role, epoch, end)


log = logging.getLogger(__name__)

ROLE_LOCK_S = 30.0
"""Longest wait for the lock of a role: roles of a killed server may still be ending."""

_LOOK_S = 1.0  # time between checks of the session that holds the lock in PostgreSQL
_LOOK_AGAIN_S = 0.2  # time between attempts at a lock that another process holds


class LockedError(UserError):
    """Another process holds the lock."""


class _Lock:
    """A lock until ``release`` or the end of the process: on a file beside SQLite, in PostgreSQL an advisory lock of a
    session.
    """

    def __init__(self, engine: Engine, role: str, *, shared: bool = False) -> None:
        self._engine, self._role, self._shared = engine, role, shared
        self._descriptor: int | None = None
        self._session: Connection | None = None

    def take(self) -> bool:
        """Return whether the lock is ours now."""
        file = database_file(self._engine)
        if file is not None:
            # Resolved: the file is the same through every link to the database.
            place = f"{file.resolve()}.{self._role}.lock"
            self._descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                return False
            return True
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            if try_session_lock(session, f"jobsight {self._role}", shared=self._shared):
                self._session = session
        finally:
            if self._session is None:
                session.close()
        return self._session is not None

    def is_held(self) -> bool:
        """Return whether it is still ours; a lost session holds nothing."""
        if self._session is not None:
            try:
                self._session.execute(text("SELECT 1"))
            except SQLAlchemyError:
                log.warning("the session that held the lock of the %s was lost; taking it again", self._role)
                self.release()
        return self._descriptor is not None or self._session is not None

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        if self._session is not None:
            with suppress(SQLAlchemyError):  # a lost session holds nothing
                release_session_lock(self._session, f"jobsight {self._role}", shared=self._shared)
            self._session.invalidate()
            self._session.close()
        self._descriptor = self._session = None


@contextmanager
def role_lock(engine: Engine, role: str, patience_s: float = 0.0) -> Iterator[Fence]:
    """Hold the lock of ``role`` ("writer", "writer of alpha", "background") while the block runs.

    Wait up to ``patience_s`` for a lock held elsewhere, or for a database that is away. Take the lock in PostgreSQL
    again if its session is lost. Yield the fence that applies if the lock is lost to another process; this process then
    gets SIGTERM.

    Raises:
        LockedError: another process holds it.
        DBAPIError: the database does not answer.
    """
    lock, until = _Lock(engine, role), time.monotonic() + patience_s
    while True:
        is_last = time.monotonic() >= until
        try:
            if lock.take():
                break
        except DBAPIError:
            if is_last:
                raise
        if is_last:
            name = engine.url.database or ""
            raise LockedError(f"another process is the {role} of database {name}; only one is allowed")
        time.sleep(_LOOK_AGAIN_S)
    with ExitStack() as ended:
        ended.callback(lock.release)
        fence = take_over(engine, role, functools.partial(os.kill, os.getpid(), signal.SIGTERM))
        if database_file(engine) is None:
            stop = threading.Event()
            keeper = threading.Thread(target=_keep, args=(lock, fence, engine, stop), name=f"{role} lock", daemon=True)
            keeper.start()
            ended.callback(keeper.join)
            ended.callback(stop.set)
        yield fence


def _keep(lock: _Lock, fence: Fence, engine: Engine, stop: threading.Event) -> None:
    while not stop.wait(_LOOK_S):
        if lock.is_held():
            continue
        try:
            with suppress(SQLAlchemyError):  # the database is away: once more in a second
                if lock.take():
                    log.info("the lock of the %s has been taken again", fence.role)
                    continue
                # Still held by our own lost session, or by a successor: the epoch says which.
                with engine.begin() as connection:
                    fence.check(connection)
        except FencedError as error:
            log.error("%s; ending", error)
            return


class ServerLock:
    """Acquired on construction, released by ``close`` or with the process.

    ``shared``: with other servers that have some roles only; the locks of the roles keep these apart. In PostgreSQL it
    ends with its session: call ``renew`` regularly.
    """

    def __init__(self, engine: Engine, shown: str, *, shared: bool = False) -> None:
        """
        Raises:
            LockedError: another server has it (the message names the database as ``shown``), or servers would share an
            SQLite file.
            OSError: the file cannot be created.
            DBAPIError: PostgreSQL does not answer.
        """
        if shared and database_file(engine) is not None:
            raise LockedError(f"database {shown}: several servers need PostgreSQL; see docs/operate/operations.md")
        self._lock, self._shown = _Lock(engine, "server", shared=shared), shown
        self._take()

    def renew(self) -> None:
        """Take the lock again if its session was lost; if the database is away, the next call tries again.

        Raises:
            LockedError: another server has taken it in the meantime.
        """
        if not self._lock.is_held():
            with suppress(DBAPIError):
                self._take()

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def _take(self) -> None:
        if not self._lock.take():
            raise LockedError(
                f"another `jobsight serve` runs on database {self._shown}: stop that one first, "
                "or give this one a database of its own with --database"
            )
