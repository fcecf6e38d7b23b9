"""What running jobs have used so far, as evidence for others: stored as it is measured, learned in order."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from jobsight_server.accounting.runs import DELETED, QUEUED, REQUEUED, RUNNING
from jobsight_server.forecasts.events import WAITS
from jobsight_server.forecasts.outcomes import Seen
from jobsight_server.forecasts.request import COLUMNS, job_of
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import jobs, seen_use

AFTER_S = 300.0  # seconds; of a run, before what it has used is evidence
GROWN = 1.2  # factor; a use that has grown by this much is seen again: forecasts within 20 % count as near

_GONE = (REQUEUED, DELETED)
_AT_ONCE = 500
_STORE = (
    "INSERT INTO seen_use (run_id, metric, at, value) VALUES (?, ?, ?, ?) ON CONFLICT (run_id, metric, at) DO NOTHING"
)
_SET_SEQ = "UPDATE seen_use SET learn_seq = ? WHERE run_id = ? AND metric = ? AND at = ?"
_DROP = "DELETE FROM seen_use WHERE run_id = ? AND metric = ? AND at = ?"


class SeenKey(NamedTuple):
    """Names one row."""

    run_id: int
    metric: str
    at: float


def is_news(elapsed_s: float, value: float, before: float | None) -> bool:
    """Whether a use after this time is to be stored, where ``before`` was stored last; None: nothing is known."""
    return elapsed_s >= AFTER_S and value > 0.0 and (before is None or value >= GROWN * before)


def last_seen(connection: Connection, metric: str) -> dict[int, float]:
    """What was stored last of each running run."""
    query = select(seen_use.c.run_id, seen_use.c.value).join(jobs, jobs.c.id == seen_use.c.run_id)
    query = query.where(jobs.c.state == RUNNING, seen_use.c.metric == metric).order_by(seen_use.c.at)
    return {row.run_id: row.value for row in connection.execute(query)}


def store_seen(connection: Connection, rows: Sequence[tuple[int, str, float, float | None]]) -> None:
    """Stores (run, metric, time, value), to be learned with the next job that ends."""
    write_many(connection, _STORE, rows)


def store_gone(connection: Connection, runs: Sequence[int], now: float) -> None:
    """Stores of those ``runs`` that were requeued or deleted that nothing is seen of them any longer.

    No end of theirs is ever learned, which would take their evidence away.
    """
    query = select(seen_use.c.run_id, seen_use.c.metric).distinct().join(jobs, jobs.c.id == seen_use.c.run_id)
    query = query.where(seen_use.c.run_id.in_(bindparam("runs", expanding=True)), jobs.c.state.in_(_GONE))
    for begin in range(0, len(runs), _AT_ONCE):
        found = connection.execute(query, {"runs": list(runs[begin : begin + _AT_ONCE])})
        store_seen(connection, [(run_id, metric, now, None) for run_id, metric in found.all()])


def read_seen(connection: Connection, before: float, ending: Collection[int]) -> tuple[list[Seen], list[SeenKey]]:
    """What was seen before ``before`` and is not learned yet, in order; and what came too late to be.

    ``ending`` are the runs that are about to be learned. That nothing is seen any longer counts for runs that are gone.
    """
    columns = (seen_use.c.metric, seen_use.c.at, seen_use.c.value, WAITS.label("waits"))
    query = select(*columns, *COLUMNS).join_from(seen_use, jobs, jobs.c.id == seen_use.c.run_id)
    query = query.where(seen_use.c.learn_seq.is_(None), seen_use.c.at < before)
    found, late = [], []
    for metric, at, value, waits, *row in connection.execute(query.order_by(seen_use.c.at, jobs.c.id)):
        job = job_of(row)
        if value is None:
            counts = job.state in _GONE
        else:
            runs = job.run_id in ending or (waits and job.state != QUEUED)
            counts = runs and (job.end is None or at < job.end)
        if counts:
            found.append(Seen(job, metric, at, value))
        else:
            late.append(SeenKey(job.run_id, metric, at))
    return found, late


def settle_seen(connection: Connection, learned: Mapping[SeenKey, int], late: Sequence[SeenKey]) -> None:
    """Keeps the position of what was learned, for retraining, and deletes what came too late."""
    write_many(connection, _SET_SEQ, [(seq, *key) for key, seq in learned.items()])
    write_many(connection, _DROP, [tuple(key) for key in late])
