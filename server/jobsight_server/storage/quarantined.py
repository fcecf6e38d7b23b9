"""Batches in quarantine, as `jobsight quarantine` shows and marks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select, update

from jobsight_server.storage.schema import quarantine

# Excludes examples of batches that agents keep: these have a sender and no body. An empty body has no sender.
IS_KEPT = or_(quarantine.c.bytes > 0, quarantine.c.cluster.is_(None))

_IN_ONE_QUERY = 500  # below the number of parameters that any SQLite accepts


@dataclass(frozen=True, slots=True)
class Kept:
    """A rejected batch; ``size`` of the body as sent, which releases before 0.2 did not keep whole."""

    received_at: float
    cluster: str | None
    node: str | None
    reason: str
    size: int
    body: bytes


def body_of(connection: Connection, number: int) -> Kept | None:
    """Return the batch with this number; None if there is none."""
    q = quarantine.c
    query = select(q.received_at, q.cluster, q.node, q.reason, q.bytes, q.body).where(q.id == number)
    row = connection.execute(query).first()
    return None if row is None else Kept(*row)


def mark_for_retry(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Mark these batches, or all if there are no ``ids``, for a retry; return those that exist.

    Examples are not marked: their agents keep the batches and resend them by themselves.
    """
    present = select(quarantine.c.id).where(IS_KEPT).order_by(quarantine.c.id)
    found = [
        number
        for part in _parts(ids)
        for number in connection.scalars(present if not ids else present.where(quarantine.c.id.in_(part)))
    ]
    if len(set(ids)) in {0, len(found)}:
        for part in _parts(found):
            connection.execute(update(quarantine).where(quarantine.c.id.in_(part)).values(retry=True))
    return found


def outcomes_of(connection: Connection, ids: Sequence[int]) -> tuple[int, list[tuple[int, str]]]:
    """Return how many of the marked batches still wait, and those rejected again, with the reason."""
    q = quarantine.c
    rows = [
        row
        for part in _parts(ids)
        for row in connection.execute(select(q.id, q.retry, q.reason).where(q.id.in_(part)).order_by(q.id))
    ]
    return sum(row.retry for row in rows), [(row.id, row.reason) for row in rows if not row.retry]


def _parts(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[at : at + _IN_ONE_QUERY] for at in range(0, len(ids), _IN_ONE_QUERY)] or [()]
