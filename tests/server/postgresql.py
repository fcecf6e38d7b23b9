"""One PostgreSQL database for many tests: migrating or dropping one costs more than most tests do."""

from __future__ import annotations

import uuid

import psycopg
from sqlalchemy import Engine, text

from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade, whole_schema

_SHAPE = """
SELECT format('%s %s %s %s', relation.relname, name.attname, name.atttypid, name.attnotnull)
FROM pg_class AS relation JOIN pg_attribute AS name ON name.attrelid = relation.oid
WHERE relation.relnamespace = 'public'::regnamespace AND name.attnum > 0 ORDER BY relation.relname, name.attnum
"""
# In one go: a statement for each of the tables takes longer than many a test.
_EMPTY = "; ".join(
    [
        *(f'DELETE FROM "{table.name}"' for table in reversed(whole_schema().sorted_tables)),
        "INSERT INTO learned_until VALUES (0, 0)",  # as in a new database
        "SELECT setval(seqrelid, seqstart, false) FROM pg_sequence",
    ]
)
_END_SESSIONS = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")


class Reused:
    """A migrated database, which ``url`` gives as empty as a new one."""

    def __init__(self, server: Engine) -> None:
        self._server = server
        self._name: str | None = None
        self._shape: list[str] = []
        self._copies: list[str] = []

    def url(self) -> str:
        """End what a test before has left running there; a test that changed the tables costs a new database."""
        if self._name is not None and not self._emptied(self._name):
            self.drop()
        if self._name is None:
            self._name = create(self._server)
            engine = open_engine(url_of(self._server, self._name))
            upgrade(engine)
            engine.dispose()
            with psycopg.connect(url_of(self._server, self._name)) as connection:
                self._shape = _shape_of(connection)
        return url_of(self._server, self._name)

    def copied(self) -> str:
        """Copy the database, in which no session is open; return the copy's name."""
        self._copies.append(name := create(self._server, self._name))
        return name

    def copy_from(self, copy: str) -> None:
        """Replace the database by this copy of it."""
        assert self._name is not None
        drop(self._server, self._name)
        create(self._server, copy, self._name)

    def close(self) -> None:
        """Drop it with its copies."""
        self.drop()
        for copy in self._copies:
            drop(self._server, copy)

    def drop(self) -> None:
        if self._name is not None:
            drop(self._server, self._name)
            self._name = None

    def _emptied(self, name: str) -> bool:
        with self._server.connect() as connection:
            connection.execute(_END_SESSIONS, {"name": name})
        # Nothing is kept, so that nothing needs to be on the disk.
        with psycopg.connect(url_of(self._server, name), options="-c synchronous_commit=off") as connection:
            if _shape_of(connection) != self._shape:
                return False
            connection.execute(_EMPTY)
        return True


def create(server: Engine, template: str | None = None, name: str | None = None) -> str:
    """Create a database, empty or like its ``template``; return its name."""
    name = name or f"jobsight_{uuid.uuid4().hex[:12]}"
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else "")))
    return name


def drop(server: Engine, name: str) -> None:
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


def url_of(server: Engine, name: str) -> str:
    return server.url.set(drivername="postgresql", database=name).render_as_string(hide_password=False)


def _shape_of(connection: psycopg.Connection) -> list[str]:
    """Version, tables and columns."""
    if connection.execute("SELECT to_regclass('alembic_version')").fetchone() == (None,):
        return []
    versions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return [str(row[0]) for row in (*versions, *connection.execute(_SHAPE))]
