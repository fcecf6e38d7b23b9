"""The finished jobs of a cluster as a trace, to try policies on this site's real jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, func, select

from jobsight_scheduler.workload.swf import FIELDS, user_line
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage.errors import UserError
from jobsight_server.storage.schema import jobs

_SUBMITTED = func.coalesce(jobs.c.submitted, jobs.c.start)
_AT_ONCE = 1000


def site_trace(connection: Connection, cluster: str) -> Iterator[str]:
    """Return all ended runs of ``cluster`` with known processors, in the order of submission, line by line.

    Names of users, applications and queues become numbers, in the order of appearance; the last lines name the users.
    MaxProcs is the largest number of processors in use at once.

    Raises:
        UserError: there are none.
    """
    ended = _ended(cluster)
    first = connection.scalar(select(func.min(_SUBMITTED)).where(*ended))
    if first is None:
        raise UserError(f"cluster {cluster!r} has no finished job with a known number of processors")
    columns = (
        _SUBMITTED.label("submitted"), jobs.c.start, jobs.c.end, jobs.c.processors, jobs.c.user, jobs.c.name,
        jobs.c.queue, jobs.c.used_cpu_s, jobs.c.used_memory_bytes, jobs.c.requested_memory_bytes,
        jobs.c.requested_walltime_s, jobs.c.group,
    )  # fmt: skip
    query = select(*columns).where(*ended).order_by(_SUBMITTED, jobs.c.id).execution_options(yield_per=_AT_ONCE)
    most = most_at_once(connection, cluster)
    return _lines(connection.execute(query), first, most)


def _ended(cluster: str) -> Any:
    return (jobs.c.cluster == cluster, jobs.c.state == "ended", jobs.c.end > jobs.c.start, jobs.c.processors > 0)


def most_at_once(connection: Connection, cluster: str) -> int:
    """Return the largest number of processors in use at once by finished jobs of ``cluster``."""
    ended = _ended(cluster)
    begin = select(jobs.c.start.label("time"), jobs.c.processors.label("change")).where(*ended)
    end = select(jobs.c.end, -jobs.c.processors).where(*ended)
    changes = begin.union_all(end).subquery()
    most = used = 0
    # At one instant ends are first: others start on the processors they free.
    for (change,) in connection.execute(select(changes.c.change).order_by(changes.c.time, changes.c.change)):
        used += change
        most = max(most, used)
    return most


def _lines(rows: Any, first: float, most: int) -> Iterator[str]:
    yield f"; UnixStartTime: {first:.0f}\n"
    yield f"; MaxProcs: {most}\n"
    numbers: dict[str, dict[str, int]] = {"user": {}, "group": {}, "application": {}, "queue": {}}

    def number(kind: str, name: str | None) -> int:
        return -1 if name is None else numbers[kind].setdefault(name, len(numbers[kind]) + 1)

    for job, row in enumerate(rows, 1):
        question = job_question(
            row.user,
            row.name,
            row.queue,
            row.processors,
            row.requested_memory_bytes,
            row.requested_walltime_s,
            row.group,
        )
        values: dict[str, float | None] = {
            "job": job,
            "submit_s": row.submitted - first,
            "wait_s": max(row.start - row.submitted, 0.0),
            "run_s": row.end - row.start,
            "processors": row.processors,
            "cpu_s": row.used_cpu_s and row.used_cpu_s / row.processors,
            "memory_kb": row.used_memory_bytes and row.used_memory_bytes / row.processors / 1024.0,
            "requested_processors": row.processors,
            "requested_s": question.requested_time_s,
            "requested_memory_kb": question.requested_memory_bytes and question.requested_memory_bytes / 1024.0,
            "status": 1,
            "user": number("user", question.user),
            "group": number("group", question.group),
            "application": number("application", question.application),
            "queue": number("queue", question.queue),
        }
        yield " ".join(_written(values.get(field)) for field in FIELDS) + "\n"
    for name, found in numbers["user"].items():
        yield user_line(found, name)


def _written(value: float | None) -> str:
    if value is None:
        return "-1"
    return f"{value:.0f}" if value == int(value) else repr(float(value))
