"""A part of a site's record: its end, the runs that held processors in it, and the size of a machine by these."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Row, Select, and_, func, or_, select

from jobsight_server.accounting.last_read import within_limit
from jobsight_server.accounting.runs import ENDED, QUEUED
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs

Floats = NDArray[np.float64]

BRIEF = 0.01
"""Largest share of the time in which more processors were in use than a machine of unknown nodes is assumed to have."""
SUBMITTED = func.coalesce(jobs.c.submitted, jobs.c.start)


def record_ends(connection: Connection, part: Part) -> dict[str, float]:
    """Return the newest end on each cluster."""
    query = select(jobs.c.cluster, func.max(jobs.c.end).label("end")).where(*part.conditions).group_by(jobs.c.cluster)
    return {row.cluster: row.end for row in connection.execute(query) if row.end is not None}


def _held(query: Select[Any], part: Part, end: float) -> Select[Any]:
    of_part = [] if part.cluster is None else [jobs.c.cluster == part.cluster]
    of_part += [] if part.since is None else [or_(jobs.c.end >= part.since, jobs.c.end.is_(None))]
    lived = or_(jobs.c.end > jobs.c.start, and_(jobs.c.end.is_(None), within_limit(end)))
    return query.where(*of_part, jobs.c.state != QUEUED, jobs.c.processors > 0, jobs.c.start < end, lived)


class HeldRun(NamedTuple):
    """When a run held its processors in a record, and since when its job waited for them.

    It ``counts`` if it ended in the record. Others were requeued or deleted, or ran on: until the record's end.
    """

    submitted: float
    end: float
    counts: bool


def held_runs(connection: Connection, query: Select[Any], part: Part) -> Iterator[tuple[Row[Any], HeldRun]]:
    """Yield the rows of ``query``, of ``jobs``, for the runs that held processors, by start. A requeued job waits from
    its last run's end on.

    Raises:
        UserError: no job has ended.
    """
    ends = record_ends(connection, part)
    if not ends:
        where = "the database" if part.cluster is None else f"cluster {part.cluster!r}"
        when = "" if part.since is None and part.until is None else " in this time"
        raise UserError(f"{where} has no finished job{when}")
    freed: dict[tuple[str, str], float] = {}
    for row in connection.execute(_held(query, part, max(ends.values())).order_by(jobs.c.start, jobs.c.id)):
        until = ends.get(row.cluster, -inf)
        if row.start < until:
            before = freed.get((row.cluster, row.job_id), -inf)
            submitted = row.start if row.submitted is None else max(row.submitted, min(before, row.start))
            end = until if row.end is None else min(row.end, until)
            freed[row.cluster, row.job_id] = end
            yield row, HeldRun(submitted, end, row.state == ENDED and row.end <= until)


class AssumedSize(Record):
    """Size of a machine whose nodes are unknown. ``most`` processors were in use at once, and more than ``processors``
    for the share ``share_above`` of the time in which jobs ran.
    """

    processors: int
    most: int
    share_above: float


def assumed_size(start: Floats, end: Floats, processors: Floats) -> AssumedSize:
    """Return the size of the machine of jobs, arrays of shape (jobs,).

    Each job fits, and all at once but for ``BRIEF`` of the time: in records that are not exact, jobs overlap that
    followed each other.
    """
    times, change = np.concatenate([end, start]), np.concatenate([-processors, processors])
    order = np.lexsort((change, times))  # at one instant ends are first: others start on the processors they free
    used = np.cumsum(change[order])[:-1]
    lasts = np.diff(times[order]) * (used > 0.0)
    total, by_use = lasts.sum(), np.argsort(used)
    place = np.searchsorted(np.cumsum(lasts[by_use]), (1.0 - BRIEF) * total)
    size = max(used[by_use][place], processors.max())
    most = max(used.max(), processors.max())
    return AssumedSize(int(size), int(most), float(lasts[used > size].sum() / (total or 1.0)))
