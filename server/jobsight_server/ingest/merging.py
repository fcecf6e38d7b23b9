"""When readings and batches are old enough to share rows: hourly, a node at a time, between two groups."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import inf

from sqlalchemy import Connection, Engine, select

from jobsight_server.ingest.merged_batches import merge_batches
from jobsight_server.ingest.merged_job_readings import merge_job_readings
from jobsight_server.ingest.packing import pack_samples
from jobsight_server.storage.schema import nodes

AFTER_S = 86400.0
"""How long each batch keeps its row: pages show when it came, ranks what it says of its machine."""

_EVERY_S, _ALL_EVERY_S = 3600.0, 86400.0
_JOBS_BACK_S = 7 * 86400.0  # how far back a new process looks for jobs' readings that are not merged


class Merger:
    """Merges in the thread that stores batches, so nothing else writes to a node meanwhile."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        shifted: Callable[[Connection], Container[int]],
        clusters: frozenset[str] | None = None,
    ) -> None:
        """``shifted``: the nodes of which the ends of some batches still lack an amount that others have.

        ``clusters``: those whose nodes are merged here; None is all.
        """
        self._engine = engine
        self._clock = clock
        self._shifted = shifted
        query = select(nodes.c.id)
        self._query = query if clusters is None else query.where(nodes.c.cluster.in_(clusters))
        self._waiting: list[int] = []
        self._again = self._all_again = 0.0
        self._batches_until: dict[int, float] = {}
        self._jobs_until: dict[int, float] = {}

    def step(self) -> bool:
        """Some rows of one node; returns whether there is more to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; the step remains to be done.
        """
        now = self._clock()
        if not self._waiting and not self._begin(now):
            return False
        node_id, before, more = self._waiting[-1], now - AFTER_S, False
        since = self._batches_until.get(node_id, -inf)
        of_jobs = self._jobs_until.get(node_id, before - _JOBS_BACK_S)
        with self._engine.begin() as connection:
            if node_id not in self._shifted(connection):
                since, more = merge_batches(connection, node_id, since, before)
            of_jobs, more_of_jobs = merge_job_readings(connection, node_id, of_jobs, before)
            more |= pack_samples(connection, node_id)
        self._batches_until[node_id], self._jobs_until[node_id] = since, of_jobs
        if not (more or more_of_jobs):
            self._waiting.pop()
        return bool(self._waiting)

    def _begin(self, now: float) -> bool:
        """Lists the nodes, if it is time; returns whether there are any."""
        # Earlier than planned only where the clock has been set back.
        if self._again - _EVERY_S <= now < self._again:
            return False
        with self._engine.connect().execution_options(reading=True) as connection:
            self._waiting = list(connection.scalars(self._query))
        self._again = now + _EVERY_S
        if not self._all_again - _ALL_EVERY_S <= now < self._all_again:
            self._batches_until = {}  # late ones are old by now, too
            self._all_again = now + _ALL_EVERY_S
        return bool(self._waiting)
