"""The schema version that this program needs, and that of a database."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, inspect, text

NEWEST = "0.3"
"""The release whose tables this program declares."""

# Named by Alembic, which kept the version until release 0.2: that release then refuses a database of a later one.
_CREATE = (
    "CREATE TABLE IF NOT EXISTS alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def version_of(connection: Connection) -> str | None:
    """The database's schema version; None if it has no tables yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def present_version(engine: Engine) -> str | None:
    """The same, on a connection of its own."""
    with engine.connect() as connection:
        return version_of(connection)


def write_newest(connection: Connection) -> None:
    """Records that the database has the tables of this program."""
    connection.execute(text(_CREATE))
    connection.execute(text("DELETE FROM alembic_version"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:newest)"), {"newest": NEWEST})
