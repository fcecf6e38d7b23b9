"""Locks that let only one process of a kind work on a database."""

from __future__ import annotations

import fcntl
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

from jobsight_server.errors import UserError


class LockedError(UserError):
    """Another process holds the lock."""


_LOOK_AGAIN_S = 0.2


@contextmanager
def role_lock(engine: Engine, role: str, patience_s: float = 0.0) -> Iterator[None]:
    """Holds the lock of ``role`` ("writer", "background") on the engine's database while the block runs.

    A lock on a file beside an SQLite database, an advisory lock in PostgreSQL; both end with the process, however
    it ends. One that is taken is waited for up to ``patience_s``.

    Raises:
        LockedError: another process holds it.
    """
    until = time.monotonic() + patience_s
    database = engine.url.database or ""
    message = f"another process is the {role} of database {database}; only one may be"
    if engine.dialect.name == "sqlite":
        # Resolved: by whichever link the file is reached, it is one database.
        lock_file = f"{Path(database).resolve()}.{role}.lock"
        descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while not _locked(descriptor):
                if time.monotonic() >= until:
                    raise LockedError(message)
                time.sleep(_LOOK_AGAIN_S)
            yield
        finally:
            os.close(descriptor)
        return
    key = zlib.crc32(f"jobsight {role}".encode())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
            if time.monotonic() >= until:
                raise LockedError(message)
            time.sleep(_LOOK_AGAIN_S)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
