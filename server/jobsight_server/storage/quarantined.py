"""Batches in quarantine that are kept whole."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, or_, update

from jobsight_server.storage.schema import quarantine

# Excludes examples of batches that agents keep: these have a sender and no body. An empty body has no sender.
IS_KEPT = or_(quarantine.c.bytes > 0, quarantine.c.cluster.is_(None))


def mark_for_retry(connection: Connection, collected: Collection[str] | None) -> None:
    """Mark all kept batches of the ``collected`` clusters, None is all, to be processed again."""
    mark = update(quarantine).where(IS_KEPT).values(retry=True)
    if collected is not None:
        mark = mark.where(quarantine.c.cluster.in_(collected) | quarantine.c.cluster.is_(None))
    connection.execute(mark)
