"""The schema version that this program needs, and that of a database."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, Text, column, inspect, select, table

NEWEST = "0.4"
"""The version of the tables that this program declares."""

UPGRADED = "0.3"
"""The version of the release before, which is upgraded."""

_VERSION = select(column("version_num", Text)).select_from(table("alembic_version"))


def version_of(connection: Connection) -> str | None:
    """Return the database's schema version; None if it has no tables yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.scalar(_VERSION)


def present_version(engine: Engine) -> str | None:
    """Return the same, on a connection of its own."""
    with engine.connect() as connection:
        return version_of(connection)
