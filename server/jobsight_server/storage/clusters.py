"""Which clusters there are: those that the settings declare, and those that the database holds.

What a database of an earlier release holds was let in by its administrator, so it counts as declared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import Column, Connection, Engine, func, select

from jobsight_server.storage.schema import jobs, nodes

_KEEP_S = 1.0
_LISTED = 20


def stored_clusters(connection: Connection) -> set[str]:
    """The clusters of which the database holds jobs or nodes."""
    return {*_distinct(connection, jobs.c.cluster), *_distinct(connection, nodes.c.cluster)}


def listed(clusters: Iterable[str]) -> str:
    """Clusters as messages name them."""
    names = sorted(clusters)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "none yet"


class KnownClusters:
    """The clusters that are declared or stored; what another process stores is known a second later at the latest."""

    def __init__(self, engine: Engine, declared: Collection[str]) -> None:
        self._engine = engine
        self._declared = frozenset(declared)
        self._known = self._declared
        self._read_at: float | None = None
        self._lock = threading.Lock()

    def __contains__(self, cluster: str) -> bool:
        return cluster in self._known or cluster in self.all()

    def all(self) -> frozenset[str]:
        """Every known cluster; asks the database again where it was not asked for a second."""
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= _KEEP_S:
                with self._engine.connect().execution_options(reading=True) as connection:
                    self._known = self._declared | stored_clusters(connection)
                self._read_at = time.monotonic()
            return self._known


def _distinct(connection: Connection, column: Column[str]) -> Iterator[str]:
    """Each value of an indexed column by one look-up: DISTINCT would read the index of millions of jobs."""
    found = connection.scalar(select(func.min(column)))
    while found is not None:
        yield found
        found = connection.scalar(select(func.min(column)).where(column > found))
