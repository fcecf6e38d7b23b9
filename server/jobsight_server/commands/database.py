"""The database that a command writes: created or upgraded, and locked for a server."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from jobsight_server.command_line.arguments import settings_of
from jobsight_server.command_line.databases import engine_of, own_words, shown_database
from jobsight_server.storage.engine import DatabaseError, database_file, own_connection
from jobsight_server.storage.lock import ServerLock
from jobsight_server.storage.schema_version import NEWEST, present_version


def open_database(args: argparse.Namespace) -> Engine:
    """Return a writing engine on the configured database, created or upgraded; report the creation of a file.

    Raises:
        DatabaseError: it cannot be opened; the message includes the database's own.
    """
    url = settings_of(args).database
    engine = _writable(url)
    file = database_file(engine)
    is_new = file is not None and not os.access(file, os.F_OK)
    if is_new:
        print(f"jobsight: creating a new database, {shown_database(engine)}", file=sys.stderr)
    with own_words(url):
        if is_new or present_version(engine) != NEWEST:
            from jobsight_server.upgrade.migrate import upgrade  # Alembic is slow to import

            upgrade(engine)
    return engine


@contextmanager
def filled_database(args: argparse.Namespace) -> Iterator[Engine]:
    """Yield the engine of ``open_database``; a file that this has created is removed again if it gets no job, and no
    other process has it open."""
    file = database_file(_writable(settings_of(args).database))
    is_new = file is not None and not os.access(file, os.F_OK)
    engine = open_database(args)
    try:
        yield engine
    finally:
        if file is not None and is_new and _is_ours_alone_and_empty(engine):
            file.unlink()
            print("jobsight: removed the new database: no job was imported", file=sys.stderr)
        engine.dispose()


def _is_ours_alone_and_empty(engine: Engine) -> bool:
    engine.dispose()
    connection = own_connection(engine)
    try:
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA journal_mode=DELETE")  # refused while another connection is open
        return connection.execute("SELECT id FROM jobs LIMIT 1").fetchone() is None
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()


def lock_database(args: argparse.Namespace, *, shared: bool = False) -> ServerLock:
    """Return the lock of the database for this server, or for servers of some roles; it need not exist yet.

    Raises:
        LockedError: another server has it.
        DatabaseError: it cannot be reached or written.
    """
    url = settings_of(args).database
    engine = _writable(url)
    with own_words(url):
        return ServerLock(engine, shown_database(engine), shared=shared)


def _writable(url: str) -> Engine:
    engine = engine_of(url)
    file = database_file(engine)
    if file is None:
        return engine
    directory = file.resolve().parent
    if not os.access(directory, os.F_OK):
        raise DatabaseError(f"database {url!r}: there is no directory {directory}; create it first")
    # SQLite and the lock against a second server create files beside the database.
    for place in (directory, file):
        if os.access(place, os.F_OK) and not os.access(place, os.W_OK | (os.X_OK if place is directory else 0)):
            raise DatabaseError(
                f"database {url!r}: {place} cannot be written by user {os.geteuid()}; "
                "run as its owner, or choose another path with --database"
            )
    return engine
