"""Database engines: the only place that knows how SQLite and PostgreSQL are opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from jobsight_server.errors import UserError

Access = Literal["write", "read"]


class DatabaseError(UserError):
    """A database URL that cannot be used."""


# Per connection, in its process's memory. The kernel caches the file as well; rejected bodies pass through here.
_CACHE_KIB = 8192


def open_engine(url: str, access: Access = "write") -> Engine:
    """An engine for ``url``: ``sqlite:///file.db``, ``postgresql://...``, or the path of an SQLite file as it is.

    With SQLite every connection is WAL with ``synchronous=FULL``: a commit has reached the disk when it returns.
    Writing transactions begin IMMEDIATE, so that two writing processes wait for each other instead of failing; a
    connection with the execution option ``reading=True`` only reads and blocks no one.
    ``access="read"`` forbids every write. PostgreSQL keeps its own durability (``synchronous_commit``).

    Raises:
        DatabaseError: the URL is invalid, or names another database system.
    """
    try:
        parsed = make_url(url if ":" in url else f"sqlite:///{url}")
    except ArgumentError as error:
        raise DatabaseError(f"database {url!r}: use sqlite:///FILE or postgresql://HOST/NAME") from error
    system = parsed.get_backend_name()
    if system == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise DatabaseError(f"database {url!r}: several processes share it, so it must be a file")
        return _sqlite(parsed, access)
    if system == "postgresql":
        options = "-c default_transaction_read_only=on" if access == "read" else "-c synchronous_commit=on"
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            connect_args={"options": options},
            pool_pre_ping=True,
        )
    raise DatabaseError(f"database {url!r}: use sqlite:///FILE or postgresql://HOST/NAME")


def protect_file(url: str) -> None:
    """Makes a new SQLite file readable by its owner only; it has users' names and digests of tokens."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        file = Path(parsed.database)
        if not file.exists():
            file.touch(mode=0o600)


def _sqlite(url: URL, access: Access) -> Engine:
    if access == "read" and _cannot_write(Path(url.database or "")):
        engine = create_engine(url, creator=lambda: _open_read_only(Path(url.database or "")))
    else:
        engine = create_engine(url, connect_args={"timeout": 30.0})

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # this module begins transactions, not the driver
        cursor = connection.cursor()
        if access == "write":
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        if access == "read":
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        reading = access == "read" or connection.get_execution_options().get("reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _cannot_write(file: Path) -> bool:
    """Whether this user may only read the database: SQLite creates files beside it even to read."""
    place = file.resolve()
    return place.exists() and not (os.access(place, os.W_OK) and os.access(place.parent, os.W_OK))


def _open_read_only(file: Path) -> sqlite3.Connection:
    place = file.resolve()
    log = Path(f"{place}-wal")
    # Without a log, no process has it open for writing, and SQLite need not look for one; it could not create its own.
    immutable = "" if log.exists() and log.stat().st_size else "&immutable=1"
    name = f"file:{quote(str(place))}?mode=ro{immutable}"
    return sqlite3.connect(name, uri=True, timeout=30.0, check_same_thread=False)
