"""Records each change before it is made, with the earlier value, so that it survives a kill in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.adjust.present import PresentJob, RequestChange
from jobsight_server.storage.schema import adjustments, jobs

STATES = BEGUN, DONE, FAILED, NOT_MADE, LOST, UNDOING, UNDONE = (
    "begun", "done", "failed", "not made", "lost", "undoing", "undone"
)  # fmt: skip
"""Every value of ``adjustments.state``."""

_ROW = adjustments.c
_ASKED = {"memory": jobs.c.asked_memory_bytes, "runtime": jobs.c.asked_walltime_s}


def begin(connection: Connection, cluster: str, change: RequestChange, request: float, now: float) -> int | None:
    """Record a change before it is made; return its number, or None if another one is under way.

    ``request`` is the user's: the run keeps it, as the scheduler's log will only have the new value.
    """
    row = {
        "cluster": cluster,
        "job_id": change.job.job_id,
        "user": change.job.user,
        "submitted": change.job.submitted,
        "resource": change.resource,
        "parameter": change.old.parameter,
        "old": change.old.value,
        "new": change.new,
        "times": change.old.times,
        "reason": change.reason,
        "state": BEGUN,
        "begun": now,
    }
    try:
        with connection.begin_nested():
            number = connection.execute(insert(adjustments).values(row).returning(_ROW.id)).scalar_one()
    except IntegrityError:
        return None
    asked = _ASKED[change.resource]
    run = (jobs.c.cluster == cluster, jobs.c.job_id == change.job.job_id, jobs.c.state == QUEUED)
    connection.execute(update(jobs).where(*run, asked.is_(None)).values({asked.name: request}))
    return int(number)


def settle(connection: Connection, number: int, state: str, now: float, error: str | None = None) -> None:
    """Record the outcome of a change."""
    values = {"state": state, "settled": now, "error": error}
    connection.execute(update(adjustments).where(_ROW.id == number).values(values))


def begin_undo(connection: Connection, number: int) -> bool:
    """Record that a change is about to be undone; return False if another one of the job is under way."""
    try:
        with connection.begin_nested():
            connection.execute(update(adjustments).where(_ROW.id == number).values(state=UNDOING))
    except IntegrityError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Resolved:
    """The outcome of an interrupted change."""

    job_id: str
    resource: str
    state: str


def resolve(connection: Connection, cluster: str, present: Mapping[str, PresentJob], now: float) -> list[Resolved]:
    """Settle changes that were begun and never settled, by the scheduler's present values.

    A change that seemed to have no effect may have one after all: the scheduler's command outlived a kill, or did not
    end in time.
    """
    found = []
    latest: dict[tuple[str, str], int] = {}
    for row in rows_of(connection, cluster):
        latest[row.job_id, row.resource] = row.id
    for row in rows_of(connection, cluster, BEGUN, UNDOING, NOT_MADE, FAILED):
        value = _present_value(present, row)
        if row.state in (NOT_MADE, FAILED):
            state = DONE if value == row.new and latest[row.job_id, row.resource] == row.id else row.state
        elif value == row.new:
            state = DONE
        elif value == row.old:
            state = NOT_MADE if row.state == BEGUN else UNDONE
        else:
            state = LOST
        if state != row.state:
            settle(connection, row.id, state, now, "Jobsight was interrupted" if state == LOST else None)
            found.append(Resolved(row.job_id, row.resource, state))
    return found


def rows_of(connection: Connection, cluster: str, *states: str) -> list[Row[Any]]:
    """Return the changes of a cluster in these states, or all, oldest first."""
    query = select(adjustments).where(_ROW.cluster == cluster)
    if states:
        query = query.where(_ROW.state.in_(states))
    return list(connection.execute(query.order_by(_ROW.id)).all())


def first_requests(
    connection: Connection, cluster: str, present: Mapping[str, PresentJob]
) -> dict[tuple[str, str], float]:
    """Return by job and resource the whole job's value before its first change, unless someone else has changed it."""
    first: dict[tuple[str, str], float] = {}
    for row in reversed(rows_of(connection, cluster, BEGUN, DONE, UNDOING, NOT_MADE)):
        key = (row.job_id, row.resource)
        if key in first or _present_value(present, row) in (row.old, row.new):
            first[key] = float(row.old * row.times)
    return first


def _present_value(present: Mapping[str, PresentJob], row: Row[Any]) -> int | None:
    job = present.get(row.job_id)
    amount = None if job is None or job.user != row.user else job.amounts.get(row.resource)
    return None if amount is None else amount.value
