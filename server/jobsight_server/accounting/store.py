"""Keeps the runs of jobs: reads those that a portion of records touches, applies the records, writes what changed."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from jobsight_server.accounting.lifecycle import JobRuns, Run
from jobsight_server.accounting.record import JobEvent, RunRecord
from jobsight_server.storage.schema import job_nodes, jobs

# Kinds of record that say something about the runs of a job.
RUN_KINDS = frozenset("SERDA")
ARRAY_PARENT = "parent of an array"

_COLUMNS = tuple(column.name for column in fields(RunRecord) if column.name != "nodes")
_READ = select(jobs.c.id, jobs.c.job_id, jobs.c.state, *(jobs.c[name] for name in _COLUMNS)).where(
    jobs.c.cluster == bindparam("of_cluster"), jobs.c.job_id.in_(bindparam("ids", expanding=True))
)
_UPDATE = (
    update(jobs)
    .where(jobs.c.id == bindparam("run_id"))
    .values({name: bindparam(name) for name in ("state", "recorded_at", "submitted", *_COLUMNS)})
)
_INSERT = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)


@dataclass(frozen=True, slots=True)
class StampedEvent:
    """A record and its stamp as UTC epoch; ``known`` is False where that is a guess about the server's zone."""

    event: JobEvent
    utc: float
    known: bool


def hold(connection: Connection, cluster: str) -> None:
    """Lets nobody else apply records of this cluster until the transaction ends. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        key = zlib.crc32(f"accounting {cluster}".encode())
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def apply_events(
    connection: Connection, cluster: str, events: Sequence[StampedEvent], now: float
) -> Counter[tuple[str, str]]:
    """Applies records in order within the caller's transaction.

    Returns how many had which outcome, by (kind, outcome); each S, E, R, D and A record has exactly one.
    """
    outcomes: Counter[tuple[str, str]] = Counter()
    concerning = [stamped for stamped in events if stamped.event.kind in RUN_KINDS]
    known = _read(connection, cluster, {s.event.job_id for s in concerning if not s.event.array_parent})
    for stamped in concerning:
        event = stamped.event
        if event.array_parent:
            outcomes[event.kind, ARRAY_PARENT] += 1
        else:
            outcome = known[event.job_id].apply(event, stamped.utc, stamped.known)
            outcomes[event.kind, outcome] += 1
    changed = [(job_id, run) for job_id, of_job in known.items() for run in of_job.runs if run.changed]
    _write(connection, cluster, changed, now)
    return outcomes


def _read(connection: Connection, cluster: str, job_ids: set[str]) -> dict[str, JobRuns]:
    found = {job_id: JobRuns() for job_id in sorted(job_ids)}
    if found:
        for row in connection.execute(_READ, {"of_cluster": cluster, "ids": list(found)}):
            record = RunRecord(**dict(zip(_COLUMNS, row[3:], strict=True)))
            found[row.job_id].runs.append(Run(row.id, row.state, record))
    for of_job in found.values():
        of_job.runs.sort(key=lambda run: run.record.start)
    return found


def _write(connection: Connection, cluster: str, changed: Sequence[tuple[str, Run]], now: float) -> None:
    new = [(job_id, run) for job_id, run in changed if run.id is None]
    if new:
        rows = [{"cluster": cluster, "job_id": job_id, "profiled": False, **_values(run, now)} for job_id, run in new]
        for (_, run), run_id in zip(new, connection.execute(_INSERT, rows).scalars(), strict=True):
            run.id = run_id
    fresh = {run.id for _, run in new}
    older = [run for _, run in changed if run.id not in fresh]
    if older:
        connection.execute(_UPDATE, [{"run_id": run.id, **_values(run, now)} for run in older])
    moved = [run.id for run in older if run.nodes_changed]
    if moved:
        connection.execute(delete(job_nodes).where(job_nodes.c.run_id.in_(moved)))
    places = [
        {"run_id": run.id, "node": node, "processors": processors}
        for _, run in changed
        if run.nodes_changed
        for node, processors in run.record.nodes
    ]
    if places:
        connection.execute(insert(job_nodes), places)


def _values(run: Run, now: float) -> dict[str, Any]:
    record = run.record
    times = (record.queued, record.created, record.start)
    submitted = next(time for time in times if time is not None)
    told = {name: getattr(record, name) for name in _COLUMNS}
    return {"state": run.state, "recorded_at": now, "submitted": submitted, **told}
