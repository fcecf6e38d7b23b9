"""Declared clusters without a writer, if several servers share a PostgreSQL database."""

from __future__ import annotations

import logging

from sqlalchemy import Engine

from jobsight_server.settings import Settings
from jobsight_server.storage.engine import database_file
from jobsight_server.storage.lock import is_held

log = logging.getLogger(__name__)


class Uncollected:
    """Logs a declared cluster that had no writer at two checks in a row, and its next writer."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine, self._declared = engine, sorted(settings.declared_clusters)
        self._seen: frozenset[str] = frozenset()
        self._reported: frozenset[str] = frozenset()

    def look(self) -> None:
        """Check the locks of the writers."""
        if database_file(self._engine) is not None or is_held(self._engine, "writer"):
            return  # one server collects everything
        free = frozenset(name for name in self._declared if not is_held(self._engine, f"writer of {name}"))
        lasting = free & self._seen  # a writer that restarts is back by the next check
        for name in sorted(lasting - self._reported):
            log.warning("no server collects cluster %r: start `jobsight serve --only writer:%s`", name, name)
        for name in sorted(self._reported - free):
            log.info("cluster %r is collected again", name)
        self._seen, self._reported = free, lasting
