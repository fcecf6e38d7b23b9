"""SQLite and PostgreSQL: opening them, all their differences, and fast queries."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

from sqlalchemy import (
    URL,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Delete,
    Engine,
    Executable,
    Integer,
    Select,
    Table,
    and_,
    bindparam,
    cast,
    create_engine,
    delete,
    event,
    func,
    select,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from jobsight_server.ground.errors import UserError
from jobsight_server.storage.named_files import cannot_write, other_kind

if TYPE_CHECKING:
    from sqlalchemy.dialects.sqlite import Insert

Part = TypeVar("Part")

Access = Literal["write", "read"]


class DatabaseError(UserError):
    """An unusable database URL."""


# Per connection, in its process's memory. The kernel caches the file too; rejected bodies pass through here.
_CACHE_KIB = 8192
# Of the write-ahead log before it is copied into the database, 32 MB: pages written again and again are copied once.
_LOG_PAGES = 8000


def open_engine(url: str, access: Access = "write", patience_s: float = 30.0) -> Engine:
    """Return an engine for ``url``: ``sqlite:///file.db``, ``postgresql://...``, or the plain path of an SQLite file.

    With SQLite every connection is WAL with ``synchronous=FULL``: a commit has reached the disk when it returns.
    Writing transactions begin IMMEDIATE: two writing processes wait for each other instead of failing; a
    connection with the execution option ``reading=True`` only reads and blocks no one.
    ``access="read"`` forbids every write. SQLite waits up to ``patience_s`` for another writer.
    PostgreSQL keeps its own durability (``synchronous_commit``).

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
        return _sqlite(parsed, access, patience_s)
    if system == "postgresql":
        options = "-c default_transaction_read_only=on" if access == "read" else "-c synchronous_commit=on"
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            connect_args={"options": options},
            pool_pre_ping=True,
        )
    raise DatabaseError(f"database {url!r}: use sqlite:///FILE or postgresql://HOST/NAME")


def protect_file(url: str) -> None:
    """Make a new SQLite file readable by its owner only; it has users' names and digests of tokens."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        file = Path(parsed.database)
        if not file.exists():
            file.touch(mode=0o600)


def _sqlite(url: URL, access: Access, patience_s: float) -> Engine:
    if kind := other_kind(Path(url.database or "")):
        raise DatabaseError(f"database {str(url)!r} is {kind}; name a file")
    if access == "read" and cannot_write(Path(url.database or "")):
        engine = create_engine(url, creator=lambda: _open_read_only(Path(url.database or "")))
    else:
        engine = create_engine(url, connect_args={"timeout": patience_s})

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # this module begins transactions, not the driver
        cursor = connection.cursor()
        if access == "write":
            _use_log(cursor, patience_s)
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute(f"PRAGMA wal_autocheckpoint={_LOG_PAGES}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        if access == "read":
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Any) -> None:
        reading = access == "read" or connection.get_execution_options().get("reading", False)
        by_driver(connection, "BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _use_log(cursor: sqlite3.Cursor, patience_s: float) -> None:
    """Have the database keep a write-ahead log. SQLite does not wait for another process that opens a new file."""
    until = time.monotonic() + patience_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(0.01)


def _open_read_only(file: Path) -> sqlite3.Connection:
    place = file.resolve()
    log = Path(f"{place}-wal")
    # Without a log, no process has it open for writing; SQLite need not look for one, and could not create its own.
    immutable = "" if log.exists() and log.stat().st_size else "&immutable=1"
    name = f"file:{quote(str(place))}?mode=ro{immutable}"
    return sqlite3.connect(name, uri=True, timeout=30.0, check_same_thread=False)


_KEYS_AT_ONCE = 300  # below the number of parameters that any SQLite accepts


def by_driver(connection: Connection, statement: str, values: Sequence[Any] = (), *, many: bool = False) -> Any:
    """Run a statement in a transaction and return the driver's cursor; ``?`` stands for a parameter.

    SQLAlchemy's own part costs more than many a statement. ``many``: once for each of ``values``.

    Raises:
        sqlalchemy.exc.DBAPIError: as SQLAlchemy raises it.
    """
    dialect, cursor = connection.dialect, connection.connection.cursor()
    try:
        (cursor.executemany if many else cursor.execute)(driver_sql(connection, statement), values)
    except dialect.loaded_dbapi.Error as error:
        is_away = dialect.is_disconnect(error, connection.connection, cursor)
        if is_away:
            connection.invalidate(error)
        known = DBAPIError.instance(
            statement, None, error, dialect.loaded_dbapi.Error, connection_invalidated=is_away, dialect=dialect
        )
        raise known from error
    return cursor


def _begun(connection: Connection) -> None:
    """Begin a transaction if there is none, as SQLAlchemy does before its statements."""
    if not connection.in_transaction():
        connection.begin()


def fetch(connection: Connection, query: str | Executable, parameters: Any) -> list[Any]:
    """Return all rows as tuples: SQLAlchemy's own cost as much as reading; in text ``?`` stands for a parameter.

    Values are the driver's: SQLite has 0 and 1 for booleans.
    """
    if isinstance(query, str):
        _begun(connection)
        cursor = by_driver(connection, query, parameters)
    else:
        cursor = connection.execute(query, parameters).cursor
    assert cursor is not None
    return list(cursor.fetchall())


def fetch_by_keys(connection: Connection, query: str, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the rows of ``query`` for all ``keys``, from few statements.

    ``{asked}`` in it stands for the keys, as in the queries of ``keyed``.
    """
    found: list[Any] = []
    for some in pieces(keys):
        row = f"({','.join([_parameter(connection, part) for part in some[0]])})"
        asked = ",".join([row] * len(some))
        found += fetch(connection, query.format(asked=asked), [part for key in some for part in key])
    return found


def keyed(table: Table, key: Sequence[str], *wanted: str) -> str:
    """Return a query for ``fetch_by_keys``: columns ``key`` and ``wanted`` of the rows with these keys.

    The keys come first and are joined in this order, because SQLite would scan the whole table for ``(a, b) IN (VALUES
    ...)``.
    """
    names, columns = ", ".join(f'"{name}"' for name in key), ", ".join(f'found."{name}"' for name in (*key, *wanted))
    same = " AND ".join(f'found."{name}" = asked."{name}"' for name in key)
    asked = f"WITH asked({names}) AS (VALUES {{asked}})"
    return f"{asked} SELECT {columns} FROM asked CROSS JOIN {table.name} AS found WHERE {same}"


def pieces(values: Sequence[Part], at_most: int = _KEYS_AT_ONCE) -> Iterator[Sequence[Part]]:
    """Yield ``values``, some at a time."""
    for begin in range(0, len(values), at_most):
        yield values[begin : begin + at_most]


RUNS: BindParameter[Sequence[Any]] = bindparam("runs", expanding=True)
"""The parameter of ``of_runs``."""


def of_runs(connection: Connection, query: Executable, runs: Sequence[Any], **others: Any) -> list[Any]:
    """Run ``query`` for all ``runs``, its parameter, some at a time; return its rows, if it has any."""
    found: list[Any] = []
    for some in pieces(runs):
        result = connection.execute(query, {"runs": list(some), **others})
        found += result.all() if result.returns_rows else ()
    return found


def rows_of(connection: Connection, query: Select[Any], column: ColumnElement[Any], keys: Sequence[Any]) -> list[Any]:
    """Return the rows of ``query`` whose ``column`` is one of ``keys``, in few statements."""
    return of_runs(connection, query.where(column.in_(RUNS)), keys)


def write_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Run the statement once for each row; ``?`` stands for a parameter. Return the number of rows written."""
    if not rows:
        return 0
    _begun(connection)
    written: int = by_driver(connection, statement, rows, many=True).rowcount
    return written


def insertion(table: Table, columns: Sequence[str] = ()) -> str:
    """Return a statement for ``write_many`` that writes these columns of a new row, by default all."""
    columns = columns or table.c.keys()
    listed = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table.name} ({listed}) VALUES ({', '.join('?' * len(columns))})"


def updating(table: Table, *columns: str) -> str:
    """Return a statement for ``write_many`` that sets these columns of the row with the ``id`` that follows them."""
    changes = ", ".join(f'"{name}" = ?' for name in columns)
    return f"UPDATE {table.name} SET {changes} WHERE id = ?"


def upsert(table: Table, columns: Sequence[str] = (), key: Sequence[str] = (), added: Sequence[str] = ()) -> str:
    """Return the same statement, which replaces these columns of a row with the same ``key``, by default the primary
    key; those ``added`` are added up."""
    columns, key = columns or table.c.keys(), key or table.primary_key.columns.keys()
    before = {name: f'{table.name}."{name}" + ' for name in added}
    changes = ", ".join(f'"{name}" = {before.get(name, "")}excluded."{name}"' for name in columns if name not in key)
    names = ", ".join(f'"{name}"' for name in key)
    return f"{insertion(table, columns)} ON CONFLICT ({names}) DO UPDATE SET {changes}"


def insert_into(connection: Connection, table: Table) -> Insert:
    """Return an INSERT with the clauses ``on_conflict_...``, which SQLAlchemy has for each database of its own."""
    insert: Insert = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
    return insert


def delete_beyond(kept: int, number: Column[int], *which: ColumnElement[bool]) -> Delete:
    """Return a statement that deletes all of these rows but the ``kept`` with the largest ``number``."""
    numbers = select(number).where(*which).order_by(number.desc()).limit(1).offset(kept).correlate(None)
    return delete(number.table).where(*which, number <= numbers.scalar_subquery())


def begins(connection: Connection, column: ColumnElement[Any], prefix: str) -> ColumnElement[bool]:
    """Return whether the text column begins with ``prefix``; in SQLite by its index, which LIKE would not use."""
    if is_sqlite(connection):
        return and_(column >= prefix, column < prefix[:-1] + chr(ord(prefix[-1]) + 1))
    return column.startswith(prefix, autoescape=True)


def driver_sql(database: Engine | Connection, statement: str) -> str:
    """Return ``statement``, where ``?`` stands for a parameter, in the driver's style."""
    return statement if is_sqlite(database) else statement.replace("?", "%s")


def _parameter(database: Engine | Connection, value: object) -> str:
    """Return ``?`` for a value in a VALUES list; PostgreSQL takes a bare one for text."""
    return "?::bigint" if isinstance(value, int) and not is_sqlite(database) else "?"


def own_connection(engine: Engine) -> Any:
    """Return a driver connection, owned by the caller until closed, outside of transactions.

    Each statement sees all commits; none keeps an old snapshot.
    """
    checked_out = engine.raw_connection()
    connection: Any = checked_out.driver_connection
    checked_out.detach()
    if not is_sqlite(engine):
        connection.autocommit = True
    return connection


def is_sqlite(database: Engine | Connection) -> bool:
    return database.dialect.name == "sqlite"


LARGEST_ID = 2**31 - 1
"""Largest INTEGER in PostgreSQL, which cannot compare with more."""


def database_file(engine: Engine) -> Path | None:
    """Return the file of an SQLite database; None for PostgreSQL."""
    return Path(engine.url.database or "") if is_sqlite(engine) else None


def whole(database: Engine | Connection, quotient: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the integer part of a non-negative quotient."""
    # CAST rounds on PostgreSQL and truncates on SQLite, whose floor() is a build option.
    return cast(quotient if is_sqlite(database) else func.floor(quotient), Integer)


def lock_until_commit(connection: Connection, name: str) -> None:
    """Hold the lock ``name`` until the transaction ends. SQLite has one writing transaction at a time anyway."""
    if not is_sqlite(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key(name)})


def try_session_lock(connection: Connection, name: str, *, shared: bool = False) -> bool:
    """Take the PostgreSQL lock ``name`` for as long as this session lasts; False if another session has it.

    ``shared``: together with others that share it.
    """
    function = "pg_try_advisory_lock_shared" if shared else "pg_try_advisory_lock"
    return bool(connection.execute(text(f"SELECT {function}(:key)"), {"key": _key(name)}).scalar())


def release_session_lock(connection: Connection, name: str, *, shared: bool = False) -> None:
    """Release the lock from ``try_session_lock``."""
    function = "pg_advisory_unlock_shared" if shared else "pg_advisory_unlock"
    connection.execute(text(f"SELECT {function}(:key)"), {"key": _key(name)})


def for_share(connection: Connection) -> str:
    """Return the end of a SELECT that keeps its rows unchanged until the transaction ends."""
    return "" if is_sqlite(connection) else " FOR SHARE"


def total_bytes(connection: Connection) -> int:
    """Return the bytes of the database on disk, without SQLite's write-ahead log."""
    query = (
        _SQLITE_PAGES.format("page_count") if is_sqlite(connection) else "SELECT pg_database_size(current_database())"
    )
    return int(connection.execute(text(query)).scalar_one())


def used_bytes(engine: Engine, shrinking: Sequence[str]) -> int:
    """Return the bytes of the database without the free room that deleted rows have left.

    SQLite knows this room. For PostgreSQL it is estimated, within some percent, for the tables ``shrinking``, from
    which rows are deleted.
    """
    if is_sqlite(engine):
        with engine.connect() as connection:
            return int(connection.execute(text(_SQLITE_PAGES.format("page_count - freelist_count"))).scalar_one())
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"ANALYZE {', '.join(shrinking)}")
        return int(connection.execute(_POSTGRESQL_USED, {"tables": list(shrinking)}).scalar_one())


_SQLITE_PAGES = "SELECT ({}) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
# A row takes its columns, a header of 24 bytes and a pointer of 4; assume indexes as full as the table.
_POSTGRESQL_USED = text("""
SELECT pg_database_size(current_database()) - coalesce(sum(pg_total_relation_size(class.oid) * (1 - least(
  1, greatest(class.reltuples, 0) * (28 + width.bytes) / greatest(pg_relation_size(class.oid), 1)))), 0)::bigint
FROM pg_class AS class CROSS JOIN LATERAL (
  SELECT coalesce(sum(avg_width * (1 - null_frac)), 0) AS bytes FROM pg_stats
  WHERE schemaname = current_schema() AND tablename = class.relname) AS width
WHERE class.relname = ANY(:tables) AND class.relnamespace = current_schema()::regnamespace
""")


def _key(name: str) -> int:
    return zlib.crc32(name.encode())
