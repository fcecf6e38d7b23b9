"""Rejected data and missing values: counted by reason, with the stored examples."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from jobsight_server.ground.answers import Record
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.storage.quarantined import IS_KEPT
from jobsight_server.storage.schema import accounting_rejects, quarantine

LISTED = 200

REJECTIONS = {
    "batches_rejected": "batches rejected",
    "quarantined_because": "batches quarantined",
    "accounting_rejected_because": "accounting lines rejected",
    "accounting_unreadable": "accounting files not readable",
    "profiles_refused": "profiles rejected",
    "measurements_refused": "queries refused by Prometheus",
    "resource_reports_rejected": "reports of resources rejected",
}
"""Events that are rejections, counted by reason, with their titles."""


class EventCount(Record):
    """The count of an event; ``label`` is the reason, or empty."""

    name: str
    label: str
    value: int


class QuarantinedBatch(Record):
    """A batch that can never be stored. One of 0 bytes with a cluster is an example: its agent keeps the batch.

    ``retry``: it is waiting for a retry.
    """

    id: int
    received_at: float
    cluster: str | None
    node: str | None
    reason: str
    bytes: int
    retry: bool


class RejectedLine(Record):
    """A line of an accounting log that could not be parsed."""

    id: int
    cluster: str
    path: str
    line: int
    reason: str
    text: str


class Rejected(Record):
    """Rejections by reason, largest first, every counted event, and the newest examples."""

    rejected: list[EventCount]
    event_counts: list[EventCount]
    quarantine: list[QuarantinedBatch]
    quarantine_kept: int
    quarantine_held_bytes: int
    quarantine_dropped: int
    quarantine_taken_in: int
    accounting_rejects: list[RejectedLine]
    accounting_rejects_kept: int


def rejected_data(connection: Connection, limit: int = LISTED) -> Rejected:
    """Return all event counts, and the newest ``limit`` quarantined batches (without bodies) and accounting lines."""
    events = read_event_counts(connection)
    batches = select(*(column for column in quarantine.c if column.name != "body")).order_by(quarantine.c.id.desc())
    lines = select(accounting_rejects).order_by(accounting_rejects.c.id.desc())
    held_bytes = select(func.coalesce(func.sum(quarantine.c.bytes), 0))
    return Rejected(
        rejected=rejections(events),
        event_counts=[EventCount(*key, value) for key, value in events.items()],
        quarantine=[QuarantinedBatch.of_row(row) for row in connection.execute(batches.limit(limit))],
        quarantine_kept=connection.scalar(select(func.count()).select_from(quarantine).where(IS_KEPT)) or 0,
        quarantine_held_bytes=int(connection.scalar(held_bytes) or 0),
        quarantine_dropped=events.get(("quarantine_dropped", ""), 0),
        quarantine_taken_in=sum(events.get(("quarantine_retried", how), 0) for how in ("stored", "duplicate")),
        accounting_rejects=[RejectedLine.of_row(row) for row in connection.execute(lines.limit(limit))],
        accounting_rejects_kept=connection.scalar(select(func.count()).select_from(accounting_rejects)) or 0,
    )


def rejections(events: Mapping[tuple[str, str], int]) -> list[EventCount]:
    """Return the rejections among ``events``, largest first."""
    found = [
        EventCount(name, label, value)
        for (name, label), value in events.items()
        if name in REJECTIONS and value  # 0 if all were withdrawn later
    ]
    return sorted(found, key=lambda count: (-count.value, count.name, count.label))
