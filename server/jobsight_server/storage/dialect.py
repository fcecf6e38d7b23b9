"""Differences between SQLite and PostgreSQL once a database is open (``storage.engine`` opens it).

SQLite is a file with one writing process at a time; PostgreSQL is a server with many. So what SQLite has by itself, a
single writer, takes a lock in PostgreSQL. Upserts are the same in both.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine, text

LARGEST_ID = 2**31 - 1
"""Of an INTEGER column in PostgreSQL, which cannot compare with more."""


def database_file(engine: Engine) -> Path | None:
    """The file of an SQLite database; None for PostgreSQL."""
    return Path(engine.url.database or "") if _is_sqlite(engine) else None


def whole(database: Engine | Connection, quotient: str) -> str:
    """The integer part of a non-negative quotient, in SQL."""
    # CAST rounds on PostgreSQL and truncates on SQLite, whose floor() is a build option.
    return f"CAST({quotient} AS INTEGER)" if _is_sqlite(database) else f"floor({quotient})"


def lock_until_commit(connection: Connection, name: str) -> None:
    """Holds the lock ``name`` until the transaction ends. SQLite has one writing transaction at a time anyway."""
    if not _is_sqlite(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})


def try_session_lock(connection: Connection, name: str) -> bool:
    """Takes the PostgreSQL lock ``name`` for as long as this session lasts; False if another session has it."""
    return bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _key(name)}).scalar())


def release_session_lock(connection: Connection, name: str) -> None:
    """Releases the lock from ``try_session_lock``."""
    connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _key(name)})


def for_share(connection: Connection) -> str:
    """The end of a SELECT that keeps its rows unchanged until the transaction ends."""
    return "" if _is_sqlite(connection) else " FOR SHARE"


def refresh_statistics(engine: Engine) -> None:
    """Updates the query planner's statistics, and has SQLite return the write-ahead log's space."""
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


def total_bytes(connection: Connection) -> int:
    """What the database takes on disk, without SQLite's write-ahead log."""
    query = (
        _SQLITE_PAGES.format("page_count") if _is_sqlite(connection) else "SELECT pg_database_size(current_database())"
    )
    return int(connection.execute(text(query)).scalar_one())


def used_bytes(engine: Engine, shrinking: Sequence[str]) -> int:
    """What the database would take without the room that deleted rows have left and new ones will take.

    SQLite knows this room. PostgreSQL does not say: it is estimated, within some percent, for the tables ``shrinking``,
    from which rows are deleted.
    """
    if _is_sqlite(engine):
        with engine.connect() as connection:
            return int(connection.execute(text(_SQLITE_PAGES.format("page_count - freelist_count"))).scalar_one())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"ANALYZE {', '.join(shrinking)}")
        return int(connection.execute(_POSTGRESQL_USED, {"tables": list(shrinking)}).scalar_one())


_SQLITE_PAGES = "SELECT ({}) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
# A row takes its columns, a header of 24 bytes and a pointer of 4; the indexes are taken to be as full as the table.
_POSTGRESQL_USED = text("""
SELECT pg_database_size(current_database()) - coalesce(sum(pg_total_relation_size(class.oid) * (1 - least(
  1, greatest(class.reltuples, 0) * (28 + width.bytes) / greatest(pg_relation_size(class.oid), 1)))), 0)::bigint
FROM pg_class AS class CROSS JOIN LATERAL (
  SELECT coalesce(sum(avg_width * (1 - null_frac)), 0) AS bytes FROM pg_stats
  WHERE schemaname = current_schema() AND tablename = class.relname) AS width
WHERE class.relname = ANY(:tables) AND class.relnamespace = current_schema()::regnamespace
""")


def _is_sqlite(database: Engine | Connection) -> bool:
    return database.dialect.name == "sqlite"


def _key(name: str) -> int:
    return zlib.crc32(name.encode())
