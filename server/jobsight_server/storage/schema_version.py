"""The schema version that this program needs, and that of a database."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, inspect, text

NEWEST = "0.3"
"""The release whose tables this program declares."""

UPGRADED = "0032"
"""The version of release 0.2, the oldest that is upgraded."""


def version_of(connection: Connection) -> str | None:
    """Return the database's schema version; None if it has no tables yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    version: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return version


def present_version(engine: Engine) -> str | None:
    """Return the same, on a connection of its own."""
    with engine.connect() as connection:
        return version_of(connection)
