"""The writer's input: batches to store, and rejected ones, which are counted and kept if worth a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.schema import quarantine


@dataclass(frozen=True, slots=True)
class Submission:
    """A decoded batch, the checksum of its payload, and its time of arrival."""

    batch: Batch
    checksum: int
    received_at: float


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a submission: ``stored``, ``duplicate`` or ``conflict``."""

    status: str
    samples: int = 0


_ROW_BYTES = 1024  # size of a row besides its body, so that many small ones are limited too


@dataclass(frozen=True, slots=True)
class Refusal:
    """A batch that is kept in quarantine (``body`` as received) or only counted (``body`` None).

    ``example``: one of the batches that agents keep is listed without its body, to show where they come from.
    """

    reason: str
    label: str
    received_at: float
    size: int
    body: bytes | None
    cluster: str | None = None
    node: str | None = None
    example: bool = False


def count_rejected(rejected: Mapping[str, int], counts: Counter[tuple[str, str]]) -> None:
    """Count, by label, batches that are not kept."""
    for label, count in rejected.items():
        counts["batches_received", ""] += count
        counts["batches_rejected", label] += count


def write_refusal(connection: Connection, refusal: Refusal, counts: Counter[tuple[str, str]]) -> None:
    """Write the rejected body, or count a batch without one; an example was counted before."""
    if refusal.example:
        _list(connection, refusal, b"")
        return
    if refusal.body is None:
        count_rejected({refusal.label: 1}, counts)
        return
    if refusal.label != "conflict":  # a conflict was counted when it was found
        counts["batches_received", ""] += 1
        counts["batches_quarantined", ""] += 1
    counts["quarantined_because", refusal.label] += 1
    _list(connection, refusal, refusal.body)


def _list(connection: Connection, refusal: Refusal, body: bytes) -> None:
    values = {
        "received_at": refusal.received_at,
        "cluster": refusal.cluster,
        "node": refusal.node,
        "reason": storable(refusal.reason),
        "bytes": refusal.size if body else 0,
        "body": body,
    }
    connection.execute(insert(quarantine).values(values))


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
