"""What was not taken in: counted, and kept in quarantine where there is something to look at."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection, insert

from jobsight_server.storage.schema import quarantine


@dataclass(frozen=True, slots=True)
class Refusal:
    """A batch that is kept in quarantine (``body`` as received) or only counted (``body`` None)."""

    reason: str
    label: str
    received_at: float
    size: int
    body: bytes | None
    cluster: str | None = None
    node: str | None = None


def write_refusal(connection: Connection, refusal: Refusal, keep: int, tally: Counter[tuple[str, str]]) -> None:
    """Counts the refusal into ``tally``; of the quarantined the newest ``keep`` stay."""
    if refusal.body is None:
        tally["batches_received", ""] += 1
        tally["batches_rejected", refusal.label] += 1
        return
    if refusal.label != "conflict":  # a conflict was counted when it was met
        tally["batches_received", ""] += 1
        tally["batches_quarantined", ""] += 1
    tally["quarantined_because", refusal.label] += 1
    values = {
        "received_at": refusal.received_at,
        "cluster": refusal.cluster,
        "node": refusal.node,
        "reason": refusal.reason[:1000],
        "bytes": refusal.size,
        "body": refusal.body,
    }
    newest = connection.execute(insert(quarantine).values(values).returning(quarantine.c.id)).scalar_one()
    connection.execute(quarantine.delete().where(quarantine.c.id <= newest - keep))
