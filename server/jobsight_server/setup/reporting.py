"""The nodes whose agents report, from the server's database."""

from __future__ import annotations

import time

from sqlalchemy import Engine, select

from jobsight_server.settings.load import load_settings
from jobsight_server.setup.places import Places
from jobsight_server.storage.engine import database_file, open_engine
from jobsight_server.storage.schema import nodes
from jobsight_server.storage.schema_version import NEWEST, present_version

_SILENT_S = 600.0


def reading_engine(places: Places) -> Engine | None:
    """Return the server's database for reading; None while there is none, or none of this release."""
    if not places.settings.exists():
        return None
    engine = open_engine(load_settings(places.settings).database, "read")
    file = database_file(engine)
    if (file is not None and not file.exists()) or present_version(engine) != NEWEST:
        engine.dispose()
        return None
    return engine


def reporting_nodes(places: Places, cluster: str, within_s: float = _SILENT_S) -> set[str]:
    """Return the nodes of a cluster that sent something in the last ten minutes."""
    engine = reading_engine(places)
    if engine is None:
        return set()
    wanted = select(nodes.c.name).where(nodes.c.cluster == cluster, nodes.c.received_at >= time.time() - within_s)
    try:
        with engine.connect() as connection:
            return {name for (name,) in connection.execute(wanted)}
    finally:
        engine.dispose()
