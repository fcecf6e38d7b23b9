"""Job arrays: all tasks of one in one row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, case, distinct, func, select

from jobsight_server.accounting.runs import STATES
from jobsight_server.forecasts.record import Record
from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME
from jobsight_server.queries.job_named import task_of
from jobsight_server.storage.schema import jobs, profiles


class ArrayState(Record):
    """The number of runs of an array's tasks in this state."""

    state: str
    runs: int


class JobArray(Record):
    """The matching tasks of an array; a requeued task has several runs.

    ``largest_memory_bytes``, ``largest_cpu_s`` and ``longest_s`` are those of the one run that used most of it, None
    where no value is known: memory as measured or else as logged, processor time as logged, and the time run.
    ``requested_memory_bytes`` and ``requested_walltime_s`` are the user's largest request for one task.
    ``total_memory_gib_hours``, memory times time run, ``total_cpu_s`` and ``total_s`` are sums over all runs with a
    known value. ``failed`` counts runs with an exit status other than 0.
    """

    cluster: str
    job_id: str
    user: str
    tasks: int
    runs: int
    states: list[ArrayState]
    failed: int
    largest_memory_bytes: float | None
    largest_cpu_s: float | None
    longest_s: float | None
    requested_memory_bytes: float | None
    requested_walltime_s: float | None
    total_memory_gib_hours: float | None
    total_cpu_s: float | None
    total_s: float | None


_GIB_HOUR = 2.0**30 * 3600.0


def job_arrays(connection: Connection, job_id: str, wanted: list[ColumnElement[bool]]) -> list[JobArray]:
    """Return the arrays of this id with two tasks or more, by cluster and user, among the ``wanted`` jobs."""
    measured = and_(profiles.c.run_id == jobs.c.id, profiles.c.metric == "memory")
    in_state = [func.sum(case((jobs.c.state == state, 1), else_=0)).label(f"in_{state}") for state in STATES]
    tasks = func.count(distinct(jobs.c.job_id))
    memory = func.coalesce(profiles.c.value * ASKED_PROCESSORS, jobs.c.used_memory_bytes)
    ran_s = jobs.c.end - jobs.c.start - func.coalesce(jobs.c.suspended_s, 0)
    query = (
        select(
            jobs.c.cluster,
            jobs.c.user,
            tasks.label("tasks"),
            func.count().label("runs"),
            func.sum(case((jobs.c.exit_status != 0, 1), else_=0)).label("failed"),
            func.max(memory).label("memory"),
            func.max(jobs.c.used_cpu_s).label("cpu_s"),
            func.max(ran_s).label("longest_s"),
            func.max(ASKED_MEMORY).label("asked_memory"),
            func.max(ASKED_WALLTIME).label("asked_s"),
            func.sum(memory * ran_s / _GIB_HOUR).label("memory_gib_hours"),
            func.sum(jobs.c.used_cpu_s).label("total_cpu_s"),
            func.sum(ran_s).label("total_s"),
            *in_state,
        )
        .select_from(jobs.outerjoin(profiles, measured))
        .where(task_of(connection, job_id), *wanted)
        .group_by(jobs.c.cluster, jobs.c.user)
        .having(tasks > 1)
        .order_by(jobs.c.cluster, jobs.c.user)
    )
    return [_array(job_id, row) for row in connection.execute(query)]


def _array(job_id: str, row: Row[Any]) -> JobArray:
    counted = [ArrayState(state, row._mapping[f"in_{state}"]) for state in STATES]
    return JobArray(
        row.cluster,
        job_id,
        row.user,
        row.tasks,
        row.runs,
        [found for found in counted if found.runs],
        row.failed,
        row.memory,
        row.cpu_s,
        row.longest_s,
        row.asked_memory or None,  # 0 is none
        row.asked_s or None,
        row.memory_gib_hours,
        row.total_cpu_s,
        row.total_s,
    )
