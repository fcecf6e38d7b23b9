"""Running jobs that will run out of memory or time, when, and how likely; and each one's expected total use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Literal

from sqlalchemy import Connection, select

from jobsight_predictor.profile.prospect import TIME_TAIL
from jobsight_predictor.profile.running import Outlook, RunsOut, memory_runs_out, time_runs_out
from jobsight_server.forecasts.outlooks import RunOutlook, read_outlooks
from jobsight_server.forecasts.reader import RunAndMetric
from jobsight_server.forecasts.record import Record, Share
from jobsight_server.forecasts.request import ASKED_PROCESSORS
from jobsight_server.storage.schema import jobs, running_use

WITHIN_S = 3600.0
LIKELY = 0.5
"""A job is listed as running out from this chance on."""
MEMORY_NEAR = 0.9
"""A job without an outlook is listed as running out from this share of its requested memory on."""

Resource = Literal["memory", "time"]

_UNKNOWN = Outlook(index=TIME_TAIL)


class Foreseen(Record):
    """A resource of a running job: the whole job's use so far (``used``), peak or sum, and its ``expected`` total
    use, the median; bytes or seconds.

    ``chance``: that it needs more than its ``limit``; ``soon``: that it does so within the requested time; ``in_s``:
    after how many seconds, if it does. Null if it has no limit, jobs are not held to their requests, or its outlook
    has not been made yet.
    """

    cluster: str
    job_id: str
    user: str
    name: str | None
    resource: Resource
    used: float
    expected: float | None
    limit: float | None
    chance: Share | None
    soon: Share | None
    in_s: float | None


def running_out(connection: Connection, now: float, within_s: float = WITHIN_S) -> list[Foreseen]:
    """Return the running jobs that are likely to run out within ``within_s``, the next first.

    Without an outlook, these are the jobs that hold nine tenths of their memory, or reach their limit by then.
    """
    found = []
    for each in _foreseen(connection, read_outlooks(connection), now, within_s):
        if each.soon is not None:
            is_listed = each.soon >= LIKELY
        elif each.expected is None and each.limit is not None:
            is_near = each.used >= MEMORY_NEAR * each.limit
            is_listed = is_near if each.resource == "memory" else each.in_s is not None and each.in_s <= within_s
        else:
            is_listed = False
        if is_listed:
            found.append(each)
    return sorted(found, key=lambda each: (inf if each.in_s is None else each.in_s, each.cluster, each.job_id))


def foreseen(connection: Connection, run_id: int, now: float, within_s: float = WITHIN_S) -> list[Foreseen]:
    """Return the outlook for the resources of one run; none unless it runs."""
    return list(_foreseen(connection, read_outlooks(connection, run_id), now, within_s, run_id))


def _foreseen(
    connection: Connection,
    outlooks: Mapping[RunAndMetric, RunOutlook],
    now: float,
    within_s: float,
    run_id: int | None = None,
) -> Iterator[Foreseen]:
    columns = (jobs.c.id, jobs.c.cluster, jobs.c.job_id, jobs.c.user, jobs.c.name, jobs.c.start)
    given = (jobs.c.requested_memory_bytes, jobs.c.requested_walltime_s, ASKED_PROCESSORS.label("asked"))
    query = select(*columns, *given, running_use.c.memory, running_use.c.growth)
    query = query.outerjoin(running_use, running_use.c.run_id == jobs.c.id).where(jobs.c.state == "running")
    if run_id is not None:
        query = query.where(jobs.c.id == run_id)
    for row in connection.execute(query):
        elapsed_s = max(0.0, now - row.start)
        limit_s = row.requested_walltime_s or None
        known = outlooks.get((row.id, "runtime"))
        runs_out = None
        if known is not None and limit_s is not None and known.are_limits:
            runs_out = time_runs_out(known.outlook, elapsed_s, limit_s, within_s)
        ends_s = (_UNKNOWN if known is None else known.outlook).final(elapsed_s)
        if limit_s is not None and (known is None or known.are_limits):
            ends_s = max(elapsed_s, min(ends_s, limit_s))
        expected_s = None if known is None else ends_s
        yield _of(
            row, "time", elapsed_s, expected_s, limit_s, runs_out, None if limit_s is None else limit_s - elapsed_s
        )
        if row.memory is None or row.memory <= 0.0:
            continue
        processors = row.asked or 1
        limit, known = row.requested_memory_bytes or None, outlooks.get((row.id, "memory"))
        expected, runs_out = None if known is None else processors * known.outlook.final(row.memory), None
        if known is not None and limit is not None and known.are_limits:
            outlook, growth = known.outlook, row.growth or 0.0
            run_s = max(1.0, ends_s - elapsed_s)
            runs_out = memory_runs_out(outlook, row.memory, growth, limit / processors, elapsed_s, run_s, within_s)
            expected = min(expected or 0.0, max(limit, processors * row.memory))
        yield _of(row, "memory", processors * row.memory, expected, limit, runs_out, None)


def _of(
    row: Any,
    resource: Resource,
    used: float,
    expected: float | None,
    limit: float | None,
    runs_out: RunsOut | None,
    left_s: float | None,
) -> Foreseen:
    return Foreseen(
        cluster=row.cluster,
        job_id=row.job_id,
        user=row.user,
        name=row.name,
        resource=resource,
        used=used,
        expected=expected,
        limit=limit,
        chance=None if runs_out is None else runs_out.chance,
        soon=None if runs_out is None else runs_out.soon,
        in_s=left_s if runs_out is None else runs_out.due_s,
    )
