"""Brings a database to the current schema with Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from jobsight_server.storage.engine import DatabaseError, lock_until_commit, protect_file
from jobsight_server.storage.schema_version import NEWEST, present_version, version_of


def alembic_config() -> Config:
    """Alembic's configuration, without a file of its own."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    return config


def upgrade(engine: Engine) -> None:
    """Creates or upgrades all tables; does nothing if they are up to date.

    Raises:
        DatabaseError: the tables are of a later release, or of none.
    """
    protect_file(str(engine.url.render_as_string(hide_password=False)))
    config, present = alembic_config(), present_version(engine)
    if present == NEWEST:
        return
    known = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    if present is not None and present not in known:
        raise DatabaseError(
            f"the database has schema version {present}, which is of no release that this one knows ({known[-1]} to "
            f"{known[0]}): use the release that wrote it, or begin a new database and import the accounting files"
        )
    with engine.begin() as connection:
        lock_until_commit(connection, "jobsight upgrade")  # of several servers that start together, one does it
        if version_of(connection) == NEWEST:
            return
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
