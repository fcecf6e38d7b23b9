"""The finished jobs of a site as a trace, to try policies on its real jobs."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from jobsight_scheduler.workload.swf import FIELDS, UNKNOWN, Trace, user_line
from jobsight_server.forecasts.request import job_question
from jobsight_server.ground.answers import Record
from jobsight_server.ground.errors import UserError
from jobsight_server.storage.clusters import Part
from jobsight_server.storage.schema import jobs

Floats = NDArray[np.float64]

BRIEF = 0.01
"""Largest share of the time in which more processors were in use than a machine of unknown nodes is assumed to have."""
SUBMITTED = func.coalesce(jobs.c.submitted, jobs.c.start)
_AT_ONCE = 1000
_COMPLETED, _FAILED = 1, 0


def site_trace(connection: Connection, part: Part) -> Trace:
    """Return the ended runs of this part with known processors, in the order of submission.

    Names of users, applications and queues become numbers, in the order of appearance; the header names the users.
    Clusters are partitions, numbered by name. MaxProcs is the ``assumed_size``.

    Raises:
        UserError: there are none.
    """
    columns = (
        jobs.c.cluster, SUBMITTED.label("submitted"), jobs.c.start, jobs.c.end, jobs.c.processors, jobs.c.user,
        jobs.c.name, jobs.c.queue, jobs.c.used_cpu_s, jobs.c.used_memory_bytes, jobs.c.requested_memory_bytes,
        jobs.c.requested_walltime_s, jobs.c.group, jobs.c.exit_status, jobs.c.failure, jobs.c.ended_abnormally,
    )  # fmt: skip
    query = select(*columns).where(*ended(part)).order_by(SUBMITTED, jobs.c.id).execution_options(yield_per=_AT_ONCE)
    numbers: dict[str, dict[tuple[str, str], int]] = {}
    names = select(jobs.c.cluster).where(*ended(part)).distinct().order_by(jobs.c.cluster)
    clusters = {name: number for number, name in enumerate(connection.scalars(names), 1)}
    cells = array("d")
    for job, row in enumerate(connection.execute(query), 1):
        fields = _fields(row, numbers) | {"job": job, "partition": clusters[row.cluster]}
        cells.extend(UNKNOWN if (value := fields.get(field)) is None else value for field in FIELDS)
    if not cells:
        where = "the database" if part.cluster is None else f"cluster {part.cluster!r}"
        when = "" if part.since is None and part.until is None else " in this time"
        raise UserError(f"{where} has no finished job with a known number of processors{when}")
    table = np.frombuffer(cells).reshape(-1, len(FIELDS)).T.copy()
    found = dict(zip(FIELDS, table, strict=True))
    began = float(found["submit_s"][0])
    found["submit_s"] -= began
    start = found["submit_s"] + found["wait_s"]
    size = assumed_size(start, start + found["run_s"], found["processors"])
    assumed = f"MaxProcs: {size.processors}", f"Note: MaxProcs is assumed; {size.most} were in use at most"
    users = [user_line(number, name) for (_, name), number in numbers["user"].items()]
    return Trace(found, [f"UnixStartTime: {began:.0f}", *assumed, *users])


def ended(part: Part) -> tuple[Any, ...]:
    """Select the runs of this part that can be simulated."""
    return (*part.conditions, jobs.c.state == "ended", jobs.c.end > jobs.c.start, jobs.c.processors > 0)


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
    return AssumedSize(int(size), int(used.max()), float(lasts[used > size].sum() / (total or 1.0)))


def _fields(row: Any, numbers: dict[str, dict[tuple[str, str], int]]) -> dict[str, float | None]:
    """Return the fields of a run by their names in the format; None is unknown."""
    asked = (row.processors, row.requested_memory_bytes, row.requested_walltime_s)
    question = job_question(row.user, row.name, row.queue, *asked, row.group)
    has_failed = bool(row.failure or row.ended_abnormally or row.exit_status)

    def number(kind: str, name: str | None) -> int | None:
        known = numbers.setdefault(kind, {})
        return None if name is None else known.setdefault((row.cluster, name), len(known) + 1)

    return {
        "submit_s": row.submitted,
        "wait_s": max(row.start - row.submitted, 0.0),
        "run_s": row.end - row.start,
        "processors": row.processors,
        "cpu_s": row.used_cpu_s and row.used_cpu_s / row.processors,
        "memory_kb": row.used_memory_bytes and row.used_memory_bytes / row.processors / 1024.0,
        "requested_processors": row.processors,
        "requested_s": question.requested_time_s,
        "requested_memory_kb": question.requested_memory_bytes and question.requested_memory_bytes / 1024.0,
        "status": _FAILED if has_failed else _COMPLETED,
        **{kind: number(kind, getattr(question, kind)) for kind in ("user", "group", "application", "queue")},
    }
