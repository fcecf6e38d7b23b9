"""Which uses of running jobs are stored as evidence for others."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import jobs, seen_use

AFTER_S = 300.0  # seconds; of a run, before what it has used is evidence
GROWN = 1.2  # factor; a use that has grown by this much is seen again: forecasts within 20 % count as near

_STORE = (
    "INSERT INTO seen_use (run_id, metric, at, value) VALUES (?, ?, ?, ?) ON CONFLICT (run_id, metric, at) DO NOTHING"
)


def is_news(elapsed_s: float, value: float, before: float | None) -> bool:
    """Whether a use after this time is to be stored, where ``before`` was stored last; None: nothing is known."""
    return elapsed_s >= AFTER_S and value > 0.0 and (before is None or value >= GROWN * before)


def last_seen(connection: Connection, metric: str) -> dict[int, float]:
    """What was stored last of each running run."""
    query = select(seen_use.c.run_id, seen_use.c.value).join(jobs, jobs.c.id == seen_use.c.run_id)
    query = query.where(jobs.c.state == "running", seen_use.c.metric == metric).order_by(seen_use.c.at)
    return {row.run_id: row.value for row in connection.execute(query)}


def store_seen(connection: Connection, rows: Sequence[tuple[int, str, float, float]]) -> None:
    """Stores (run, metric, time, value), to be learned with the next job that ends."""
    write_many(connection, _STORE, rows)
