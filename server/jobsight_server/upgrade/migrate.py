"""Creates a database's tables, or upgrades those of the previous release with Alembic."""

from __future__ import annotations

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, insert, inspect

from jobsight_server.storage.engine import DatabaseError, lock_until_commit, protect_file
from jobsight_server.storage.schema import learned_until
from jobsight_server.storage.schema.metadata import metadata
from jobsight_server.storage.schema_version import NEWEST, UPGRADED, present_version, version_of
from jobsight_server.systems.listed import systems

log = logging.getLogger(__name__)


def whole_schema() -> MetaData:
    """Return all tables, of the core and of the placing systems."""
    for system in systems():
        system.module("tables")
    return metadata


def upgrade(engine: Engine) -> None:
    """Create or upgrade all tables in one transaction, unless they are up to date.

    Raises:
        DatabaseError: the tables are neither of this release nor of 0.3.
    """
    protect_file(str(engine.url.render_as_string(hide_password=False)))
    if present_version(engine) == NEWEST:
        return
    with engine.begin() as connection:
        lock_until_commit(connection, "jobsight upgrade")  # one of several servers that start together does it
        present = version_of(connection)
        if present == NEWEST:
            return
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
        config.attributes |= {"connection": connection, "target_metadata": whole_schema()}
        if present is None and (others := inspect(connection).get_table_names()):
            raise DatabaseError(f"it holds tables of another program, such as {others[0]!r}: name a new database")
        if present is None:
            whole_schema().create_all(connection, checkfirst=False)
            connection.execute(insert(learned_until).values(learn_seq=0, outcome_id=0))  # nothing to learn
            command.stamp(config, "head")
        elif present == UPGRADED:
            log.info("upgrading the database from schema %s to %s", present, NEWEST)
            command.upgrade(config, "head")
        else:
            raise DatabaseError(
                f"the database has schema version {present}; this program needs {NEWEST} and upgrades {UPGRADED} only. "
                "Start release 0.3 once if 0.2 wrote it (0.2 before if 0.1 did), use the release that wrote it, or "
                "create a new database and import the accounting files"
            )
