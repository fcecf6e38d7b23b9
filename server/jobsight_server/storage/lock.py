"""Locks that let only one process of a kind work on a database."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from jobsight_server.errors import UserError


class LockedError(UserError):
    """Another process holds the lock."""


@contextmanager
def role_lock(engine: Engine, role: str) -> Iterator[None]:
    """Holds the lock of ``role`` ("writer", "background") on the engine's database while the block runs.

    A lock on a file beside an SQLite database, an advisory lock in PostgreSQL; both end with the process, however
    it ends.

    Raises:
        LockedError: another process holds it.
    """
    database = engine.url.database or ""
    message = f"another process is the {role} of database {database}; only one may be"
    if engine.dialect.name == "sqlite":
        descriptor = os.open(Path(f"{database}.{role}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(message) from None
            yield
        finally:
            os.close(descriptor)
        return
    key = zlib.crc32(f"jobsight {role}".encode())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
            raise LockedError(message)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})
