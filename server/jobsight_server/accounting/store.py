"""Stores the runs of jobs, and unusable lines.

Reads the runs that a chunk of records affects, applies the records, and writes the changes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select
from sqlalchemy.exc import DBAPIError

from jobsight_server.accounting.parallel_tasks import add_up_tasks
from jobsight_server.accounting.runs import JobEvent, JobRuns, RunRecord, StoredRun
from jobsight_server.accounting.text import escaped
from jobsight_server.ground.job_names import application
from jobsight_server.ground.outage import outage
from jobsight_server.storage.engine import (
    delete_beyond,
    fetch_by_keys,
    insertion,
    keyed,
    lock_until_commit,
    updating,
    upsert,
    write_many,
)
from jobsight_server.storage.job_counts import recounted
from jobsight_server.storage.schema import accounting_rejects, job_nodes, jobs

log = logging.getLogger(__name__)

# Kinds of record that concern the runs of a job.
RUN_KINDS = frozenset("SERDA")
# Some schedulers also record the wait.
WAITING_KIND = "Q"
ARRAY_PARENT = "parent of an array"

_COLUMNS = tuple(column.name for column in fields(RunRecord) if column.name not in ("nodes", "dropped_facts"))
_values_of = attrgetter(*_COLUMNS)
_READ = select(jobs.c.id, jobs.c.job_id, jobs.c.state, *(jobs.c[name] for name in _COLUMNS)).where(
    jobs.c.cluster == bindparam("of_cluster"), jobs.c.job_id.in_(bindparam("ids", expanding=True))
)
_WRITTEN = ("state", "recorded_at", "submitted", "application", *_COLUMNS)
_UPDATE = updating(jobs, *_WRITTEN)
_INSERT = insertion(jobs, ("cluster", "job_id", "profiled", *_WRITTEN))
_FIND = keyed(jobs, ("cluster", "job_id", "start"), "id")

KEPT_PER_CLUSTER = 10_000
_SHOWN = 500

_OF_REJECT = ("cluster", "path", "line")
_KEEP = upsert(accounting_rejects, (*_OF_REJECT, "reason", "text"), _OF_REJECT)
_FORGET_OLDEST = delete_beyond(
    KEPT_PER_CLUSTER, accounting_rejects.c.id, accounting_rejects.c.cluster == bindparam("of_cluster")
)


def lock_cluster(connection: Connection, cluster: str) -> None:
    """Lock out others that apply records of this cluster until the transaction ends."""
    lock_until_commit(connection, f"accounting {cluster}")


def apply_each(
    connection: Connection, cluster: str, events: Sequence[JobEvent], now: float
) -> tuple[Counter[tuple[str, str]], Sequence[JobEvent]]:
    """Apply records as ``apply_events`` does; return the outcomes, and the records of jobs that cannot be stored.

    Such a job costs only its own records.
    """
    outcomes, refused = _tried(connection, cluster, events, now)
    if refused:
        outcomes, refused = Counter(), []
        for job_id in dict.fromkeys(event.job_id for event in events):
            of_job = [event for event in events if event.job_id == job_id]
            found, left = _tried(connection, cluster, of_job, now)
            outcomes, refused = outcomes + found, [*refused, *left]
    return outcomes, refused


def _tried(
    connection: Connection, cluster: str, events: Sequence[JobEvent], now: float
) -> tuple[Counter[tuple[str, str]], Sequence[JobEvent]]:
    """Apply all of the records or, if the database refuses one, none of them; then return them."""
    try:
        with connection.begin_nested():
            return apply_events(connection, cluster, events, now), ()
    except (DBAPIError, ArithmeticError, ValueError) as error:
        if isinstance(error, DBAPIError) and outage(error) is not None:
            raise
        log.warning("accounting of %s: %s", cluster, " ".join(str(getattr(error, "orig", error)).split())[:200])
        return Counter(), events


def apply_events(
    connection: Connection, cluster: str, events: Sequence[JobEvent], now: float
) -> Counter[tuple[str, str]]:
    """Apply records in order within the caller's transaction.

    Return the number of outcomes by (kind, outcome); each S, E, R, D and A record has exactly one, and each Q record
    that describes the job.
    """
    outcomes: Counter[tuple[str, str]] = Counter()
    concerning = [
        event for event in events if event.kind in RUN_KINDS or (event.kind == WAITING_KIND and event.run is not None)
    ]
    with_tasks = [event for event in events if event.task is not None]
    ids = {event.job_id for event in (*concerning, *with_tasks) if not event.array_parent}
    known = _read(connection, cluster, ids)
    for event in concerning:
        outcome = ARRAY_PARENT
        if not event.array_parent:
            stamp = event.local_s if event.utc_s is None else event.utc_s
            outcome = known[event.job_id].apply(event, stamp, not event.zone_guessed)
        outcomes[event.kind, outcome] += 1
    add_up_tasks(connection, cluster, with_tasks, known)
    changed = [(job_id, run) for job_id, of_job in known.items() for run in of_job.runs if run.changed]
    removed = [run.id for of_job in known.values() for run in of_job.removed if run.id is not None]
    older = [run.id for _, run in changed if run.id is not None]
    with recounted(connection, [*older, *removed]) as new:
        if removed:
            connection.execute(delete(jobs).where(jobs.c.id.in_(removed)))
        new += _write(connection, cluster, changed, now)
    return outcomes


def _read(connection: Connection, cluster: str, job_ids: set[str]) -> dict[str, JobRuns]:
    found = {job_id: JobRuns() for job_id in sorted(job_ids)}
    if found:
        rows = connection.execute(_READ, {"of_cluster": cluster, "ids": list(found)})
        for run_id, job_id, state, *values in rows:
            record = RunRecord(**dict(zip(_COLUMNS, values, strict=True)))
            found[job_id].runs.append(StoredRun(run_id, state, record))
    for of_job in found.values():
        of_job.runs.sort(key=lambda run: run.record.start)
    return found


def _write(connection: Connection, cluster: str, changed: Sequence[tuple[str, StoredRun]], now: float) -> list[int]:
    """Write the runs; return the ids of new ones."""
    new = [(job_id, run) for job_id, run in changed if run.id is None]
    older = [run for _, run in changed if run.id is not None]
    if older:  # before new ones: a waiting run has begun where its job waits again, and both are infinite until then
        write_many(connection, _UPDATE, [(*_values(run, now), run.id) for run in older])
    if new:
        write_many(connection, _INSERT, [(cluster, job_id, False, *_values(run, now)) for job_id, run in new])
        keys = [(cluster, job_id, float(run.record.start)) for job_id, run in new]
        ids = {tuple(key): run_id for *key, run_id in fetch_by_keys(connection, _FIND, keys)}
        for key, (_, run) in zip(keys, new, strict=True):
            run.id = ids[key]
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
    return [run.id for _, run in new if run.id is not None]


def _values(run: StoredRun, now: float) -> tuple[Any, ...]:
    """Return the values of ``_WRITTEN``."""
    record = run.record
    times = (record.queued, record.created, record.start)
    submitted = next(time for time in times if time is not None)
    stands_for = None if record.name is None else application(record.name)
    return (run.state, now, submitted, stands_for, *_values_of(record))


@dataclass(frozen=True, slots=True)
class Reject:
    """``line`` counts from 1; ``label`` is the reason for counting, ``reason`` the full one."""

    line: int
    label: str
    reason: str
    data: bytes


def keep_rejects(connection: Connection, cluster: str, path: str, rejects: Sequence[Reject]) -> None:
    """Store ``rejects``, the newest 10,000 of each cluster; their total is in the event counts."""
    if not rejects:
        return
    newest = rejects[-KEPT_PER_CLUSTER:]
    write_many(connection, _KEEP, [(cluster, path, one.line, one.reason, printable(one.data)) for one in newest])
    connection.execute(_FORGET_OLDEST, {"of_cluster": cluster})


def forget_rejects(connection: Connection, cluster: str, path: str) -> None:
    """Delete the rejects of a file that is read again."""
    connection.execute(delete(accounting_rejects).filter_by(cluster=cluster, path=path))


def reject_label(connection: Connection, cluster: str, path: str, line: int) -> str | None:
    """Return why this record of a file was rejected; None if it was not, or too long ago to know."""
    return connection.scalar(select(accounting_rejects.c.reason).filter_by(cluster=cluster, path=path, line=line))


def printable(data: bytes) -> str:
    r"""Return the first 500 characters of a line, with unprintable ones as escapes.

    >>> printable(b"a\x00\xff\xc3\xa9\x1b[0m")
    'a\\x00\\xffé\\x1b[0m'
    """
    shown = data[: 4 * _SHOWN].decode("utf-8", "backslashreplace")[:_SHOWN]
    return escaped(shown)[:_SHOWN]
