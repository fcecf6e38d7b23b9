"""Stores received batches and rejections, each group in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection, Engine

from jobsight_server.ingest.group_writer import GroupWriter, Statements
from jobsight_server.ingest.merging import Merger
from jobsight_server.ingest.shifts import step
from jobsight_server.ingest.submission import (
    BatchOutcome,
    Refusal,
    Submission,
    bound_quarantine,
    count_rejected,
    write_refusal,
)
from jobsight_server.ingest.writer_cache import WriterCache
from jobsight_server.storage.event_counts import add_event_counts


class SampleStore:
    """Applies groups of submissions and rejections; drops its cache when a transaction fails."""

    def __init__(
        self,
        engine: Engine,
        assumed_speed_bps: float,
        quarantine_bytes: int,
        late_s: float = 300.0,
        clock: Callable[[], float] = time.time,
        clusters: frozenset[str] | None = None,
    ) -> None:
        """``late_s``: the age at storing from which readings count as late for the profiler.

        ``clusters``: those that no other writer stores for; None is all.
        """
        self._engine = engine
        self._assumed_speed_bps = assumed_speed_bps
        self._quarantine_bytes = quarantine_bytes
        self._late_s = late_s
        self._clock = clock
        self._cache = WriterCache(clusters)
        self.merger = Merger(engine, clock, lambda connection: self._cache.shifts(connection), clusters)
        self._sql = Statements.of(engine)

    def apply(
        self,
        submissions: Sequence[Submission],
        refusals: Sequence[Refusal] = (),
        rejected: Mapping[str, int] = MappingProxyType({}),
    ) -> list[BatchOutcome]:
        """Commit all of it or nothing; return one outcome per submission. ``rejected``: their number by label.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; nothing was stored.
        """
        counts: Counter[tuple[str, str]] = Counter()
        committed = False
        try:
            with self._engine.begin() as connection:
                group = GroupWriter(connection, self._cache, self._sql, self._assumed_speed_bps, counts)
                outcomes = [group.add(submission) for submission in submissions]
                group.write(self._clock(), self._late_s)
                self._settle(connection)
                for refusal in refusals:
                    write_refusal(connection, refusal, counts)
                if refusals:
                    bound_quarantine(connection, self._quarantine_bytes, counts)
                count_rejected(rejected, counts)
                add_event_counts(connection, counts)
            committed = True
        finally:
            if not committed:
                self._cache.forget()
        return outcomes

    def settle(self) -> bool:
        """Apply one step of the pending ``shifts``; return whether there is more to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; the step remains to be done.
        """
        settled = False
        try:
            left = self._cache.known_shifts
            if left is None:
                with self._engine.connect().execution_options(reading=True) as connection:
                    left = self._cache.shifts(connection)
            if left:
                with self._engine.begin() as connection:
                    self._settle(connection)
            settled = True
        finally:
            if not settled:
                self._cache.forget()
        return bool(left)

    def _settle(self, connection: Connection) -> None:
        """Apply one step, if there is one: no transaction waits for more."""
        for node_id, shifts in self._cache.shifts(connection).items():
            self._cache.keep_shifts(node_id, step(connection, node_id, shifts))
            return
