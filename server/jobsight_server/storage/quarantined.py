"""Batches in quarantine, as `jobsight quarantine` shows and marks them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, or_, select

from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import quarantine

# Excludes examples of batches that agents keep: these have a sender and no body. An empty body has no sender.
IS_KEPT = or_(quarantine.c.bytes > 0, quarantine.c.cluster.is_(None))


def body_of(connection: Connection, number: int) -> Any:
    """Return the row of the batch with this number, or None; releases before 0.2 did not keep the whole body."""
    return connection.execute(select(quarantine).where(quarantine.c.id == number)).first()


def mark_for_retry(connection: Connection, ids: Collection[int]) -> list[int]:
    """Mark these batches, or all if there are no ``ids``, for a retry, if all exist; return those that do.

    Examples are not marked: their agents keep the batches and resend them by themselves.
    """
    present = connection.scalars(select(quarantine.c.id).where(IS_KEPT).order_by(quarantine.c.id))
    found = [number for number in present if not ids or number in ids]
    if len(set(ids)) in {0, len(found)}:
        write_many(connection, "UPDATE quarantine SET retry = ? WHERE id = ?", [(True, number) for number in found])
    return found


def outcomes_of(connection: Connection, ids: Collection[int]) -> tuple[int, list[tuple[int, str]]]:
    """Return how many of the marked batches still wait, and those rejected again, with the reason."""
    q = quarantine.c
    query = select(q.id, q.retry, q.reason).where(q.id.between(min(ids), max(ids))).order_by(q.id)
    rows = [row for row in connection.execute(query) if row.id in ids]
    return sum(row.retry for row in rows), [(row.id, row.reason) for row in rows if not row.retry]
