"""What was refused, rejected or had no value: counted by reason, and the kept examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from jobsight_server.storage.quarantined import IS_KEPT
from jobsight_server.storage.schema import accounting_rejects, quarantine
from jobsight_server.storage.tallies import read_tallies

LISTED = 200

# Tallies that count refusals, by reason.
REFUSALS = (
    "batches_rejected",
    "quarantined_because",
    "accounting_rejected_because",
    "accounting_unreadable",
    "profiles_refused",
    "profiles_dropped",
)


def refused(connection: Connection, limit: int = LISTED) -> dict[str, Any]:
    """Every tally, and the newest ``limit`` quarantined batches (without bodies) and accounting lines.

    A batch of 0 bytes and a cluster is an example of those that their agents keep: listed, not kept.
    """
    tallies = read_tallies(connection)
    quarantined = select(*(column for column in quarantine.c if column.name != "body"))
    return {
        "refused": refusals(tallies),
        "tallies": [{"name": n, "label": label, "value": v} for (n, label), v in tallies.items()],
        "quarantine": [
            dict(row)
            for row in connection.execute(quarantined.order_by(quarantine.c.id.desc()).limit(limit)).mappings()
        ],
        "quarantine_kept": connection.scalar(select(func.count()).select_from(quarantine).where(IS_KEPT)),
        "quarantine_held_bytes": int(connection.scalar(select(func.coalesce(func.sum(quarantine.c.bytes), 0))) or 0),
        "quarantine_dropped": tallies.get(("quarantine_dropped", ""), 0),
        "quarantine_taken_in": sum(tallies.get(("quarantine_retried", how), 0) for how in ("stored", "duplicate")),
        "accounting_rejects": [
            dict(row)
            for row in connection.execute(
                select(accounting_rejects).order_by(accounting_rejects.c.id.desc()).limit(limit)
            ).mappings()
        ],
        "accounting_rejects_kept": connection.scalar(select(func.count()).select_from(accounting_rejects)),
    }


def refusals(tallies: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """The tallies that count something refused, largest first."""
    found = [
        {"name": name, "label": label, "value": value}
        for (name, label), value in tallies.items()
        if name in REFUSALS and value  # 0 where all of it was taken back
    ]
    return sorted(found, key=lambda entry: (-entry["value"], entry["name"], entry["label"]))
