"""Stores received batches and rejections, each group in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import Connection, Engine, func, select

from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.ingest.group_writer import CachedNodes, GroupWriter
from jobsight_server.ingest.joining import Joiner
from jobsight_server.ingest.wire import BatchOutcome, Submission
from jobsight_server.storage.engine import insertion, write_many
from jobsight_server.storage.schema import quarantine

_ROW_BYTES = 1024  # size of a row besides its body, so that many small ones are limited too
_KEEP = insertion(quarantine, ("received_at", "cluster", "node", "reason", "bytes", "body", "retry"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A batch that is kept in quarantine (``body`` as received) or only counted (``body`` None).

    ``example``: one of the batches that agents keep is listed without its body, to show where they come from.
    """

    reason: str
    label: str
    received_at: float
    body: bytes | None
    cluster: str | None = None
    node: str | None = None
    example: bool = False


def _refuse(connection: Connection, refusal: Refusal, counts: Counter[tuple[str, str]]) -> BatchOutcome:
    """Keep the rejected body, or list an example, which was counted before."""
    if not refusal.example:
        if refusal.label != "conflict":  # a conflict was counted when it was found
            counts["batches_received", ""] += 1
            counts["batches_quarantined", ""] += 1
        counts["quarantined_because", refusal.label] += 1
    body = refusal.body or b""
    row = (refusal.received_at, refusal.cluster, refusal.node, storable(refusal.reason), len(body), body, False)
    write_many(connection, _KEEP, [row])
    return BatchOutcome("quarantined")


def storable(reason: str) -> str:
    """Return ``reason`` in a form that any database accepts: no NUL, no lone surrogate, at most 1,000 characters."""
    return reason.replace("\x00", "\\0").encode("utf-8", "backslashreplace").decode()[:1000]


def bound_quarantine(connection: Connection, budget_bytes: int, counts: Counter[tuple[str, str]]) -> None:
    """Drop and count the oldest bodies until the rest fits into ``budget_bytes``."""
    held, rows = connection.execute(
        select(func.coalesce(func.sum(quarantine.c.bytes), 0), func.count()).select_from(quarantine)
    ).one()
    over = int(held) + rows * _ROW_BYTES - budget_bytes
    if over <= 0:
        return
    oldest = connection.execute(select(quarantine.c.id, quarantine.c.bytes).order_by(quarantine.c.id))
    last = 0
    for number, size in oldest:
        last, over = number, over - size - _ROW_BYTES
        if over <= 0:
            break
    oldest.close()
    dropped = connection.execute(quarantine.delete().where(quarantine.c.id <= last)).rowcount
    counts["quarantine_dropped", ""] += dropped


class SampleStore:
    """Applies groups of submissions and rejections; drops its cached nodes when a transaction fails."""

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
        self._nodes: CachedNodes = {}
        self.joiner = Joiner(engine, clock, clusters)

    def apply(
        self, work: Sequence[Submission | Refusal], rejected: Mapping[str, int] = MappingProxyType({})
    ) -> list[BatchOutcome]:
        """Commit all of it or nothing; return one outcome for each. ``rejected``: by label, how many were not kept.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database failed; nothing was stored.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for label, count in rejected.items():
            counts["batches_received", ""] += count
            counts["batches_rejected", label] += count
        with ExitStack() as unless_committed:
            unless_committed.callback(self._nodes.clear)  # they may no longer agree with the database
            with self._engine.begin() as connection:
                group = GroupWriter(connection, self._nodes, self._assumed_speed_bps, counts)
                outcomes = [
                    group.add(one) if isinstance(one, Submission) else _refuse(connection, one, counts) for one in work
                ]
                group.write(self._clock(), self._late_s)
                if any(isinstance(one, Refusal) for one in work):
                    bound_quarantine(connection, self._quarantine_bytes, counts)
                add_event_counts(connection, counts)
            unless_committed.pop_all()
        self.joiner.late += group.late
        return outcomes
