"""What differs between SQLite and PostgreSQL once a database is open (``storage.engine`` opens it).

SQLite is a file that one process at a time writes; PostgreSQL is a server that many do. So what SQLite gives by
itself, one writer, is a lock in PostgreSQL. Upserts are the same in both.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text


def database_file(engine: Engine) -> Path | None:
    """The file of an SQLite database; None for PostgreSQL."""
    return Path(engine.url.database or "") if _is_sqlite(engine) else None


def driver_sql(database: Engine | Connection, statement: str) -> str:
    """``statement``, where ``?`` stands for a parameter, as the driver wants it."""
    return statement if _is_sqlite(database) else statement.replace("?", "%s")


def whole(database: Engine | Connection, quotient: str) -> str:
    """The whole part of a quotient that is not negative, in SQL."""
    # CAST rounds on PostgreSQL and truncates on SQLite, whose floor() is a build option.
    return f"CAST({quotient} AS INTEGER)" if _is_sqlite(database) else f"floor({quotient})"


def parameter(database: Engine | Connection, value: object) -> str:
    """``?`` for a value in a VALUES list, where PostgreSQL takes a bare one for text."""
    return "?::integer" if isinstance(value, int) and not _is_sqlite(database) else "?"


def own_connection(engine: Engine) -> Any:
    """A connection of the driver that is the caller's until closed, outside of transactions.

    Each statement sees what is committed, and none holds on to an old snapshot.
    """
    checked_out = engine.raw_connection()
    connection: Any = checked_out.driver_connection
    checked_out.detach()
    if not _is_sqlite(engine):
        connection.autocommit = True
    return connection


def look_ups_wait(engine: Engine) -> bool:
    """Whether a look-up may have to wait: one in a file does not, one in a database server may."""
    return not _is_sqlite(engine)


def lock_until_commit(connection: Connection, name: str) -> None:
    """Holds the lock ``name`` until the transaction ends. SQLite has one writing transaction at a time anyway."""
    if not _is_sqlite(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})


def try_session_lock(connection: Connection, name: str) -> bool:
    """Takes the lock ``name`` of PostgreSQL for as long as this session lasts; False where another one has it."""
    return bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(name)}).scalar())


def release_session_lock(connection: Connection, name: str) -> None:
    """Gives back what ``try_session_lock`` took."""
    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _key(name)})


def for_share(connection: Connection) -> str:
    """What a SELECT ends with that keeps its rows as they are until the transaction ends."""
    return "" if _is_sqlite(connection) else " FOR SHARE"


def refresh_statistics(engine: Engine) -> None:
    """Lets the query planner know the tables, and SQLite give the write-ahead log back to the file system."""
    if not _is_sqlite(engine):
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE")
        return
    # On the driver's own connection: a checkpoint cannot run inside a transaction.
    driver = engine.raw_connection()
    try:
        cursor = driver.cursor()
        cursor.execute("PRAGMA optimize")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.close()
    finally:
        driver.close()


def _is_sqlite(database: Engine | Connection) -> bool:
    return database.dialect.name == "sqlite"


def _key(name: str) -> int:
    return zlib.crc32(name.encode())
