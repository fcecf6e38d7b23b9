"""The known clusters: those declared in the settings, and those in the database, the memory of their nodes, and a
chosen part of their jobs.

An administrator accepted the clusters in a database of an earlier release, so they count as declared.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Engine, func, select

from jobsight_server.ground.errors import UserError
from jobsight_server.storage.schema import jobs, nodes

_KEEP_S = 1.0
_LISTED = 20


class Part(NamedTuple):
    """The jobs of ``cluster``, or of all, that ended from ``since`` to before ``until``; UTC epoch seconds."""

    cluster: str | None = None
    since: float | None = None
    until: float | None = None

    @property
    def conditions(self) -> list[Any]:
        """The conditions of a query of ``jobs``."""
        wanted = [] if self.cluster is None else [jobs.c.cluster == self.cluster]
        wanted += [] if self.since is None else [jobs.c.end >= self.since]
        return wanted + ([] if self.until is None else [jobs.c.end < self.until])


def stored_clusters(connection: Connection) -> set[str]:
    """Return the clusters with jobs or nodes in the database."""
    return {*_distinct(connection, jobs.c.cluster), *_distinct(connection, nodes.c.cluster)}


def memory_of_largest_nodes(connection: Connection) -> dict[str, int]:
    """Return bytes by cluster, without clusters whose agents report none."""
    query = select(nodes.c.cluster, func.max(nodes.c.memory_total_bytes)).group_by(nodes.c.cluster)
    return {cluster: most for cluster, most in connection.execute(query) if most}


def listed(clusters: Iterable[str]) -> str:
    """Return names of clusters for messages."""
    names = sorted(clusters)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more or "none yet"


def chosen(given: str | None, known: Collection[str], what: str) -> str:
    """Return the cluster that was given, or the only known one; ``what`` names the known ones.

    Raises:
        UserError: it is not known, or several are.
    """
    if given is None and len(known) == 1:
        return next(iter(known))
    if given is None or given not in known:
        problem = "give --cluster NAME" if given is None else f"unknown cluster {given!r}"
        raise UserError(f"{problem}; {what}: {listed(known)}")
    return given


class KnownClusters:
    """The declared or stored clusters; those stored by another process are known within a second.

    ``known``: those found by the last query.
    """

    def __init__(self, engine: Engine, declared: Collection[str]) -> None:
        self._engine = engine
        self._declared = frozenset(declared)
        self.known = self._declared
        self._read_at: float | None = None
        self._lock = threading.Lock()

    def __contains__(self, cluster: str) -> bool:
        return cluster in self.known or cluster in self.all()

    def all(self) -> frozenset[str]:
        """Return every known cluster; query the database again after a second."""
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= _KEEP_S:
                with self._engine.connect().execution_options(reading=True) as connection:
                    self.known = self._declared | stored_clusters(connection)
                self._read_at = time.monotonic()
            return self.known


def _distinct(connection: Connection, column: Column[str]) -> Iterator[str]:
    """Yield each value of an indexed column by one look-up: DISTINCT would read an index of millions of jobs."""
    found = connection.scalar(select(func.min(column)))
    while found is not None:
        yield found
        found = connection.scalar(select(func.min(column)).where(column > found))
