"""Runs of jobs: recent ones, and those of one job by its id."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import ColumnElement, Connection, Row, case, func, select

from jobsight_server.accounting.runs import QUEUED, STATES, Failure
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.record import PAGE_SIZE, Metric, Page, Record, pages_of
from jobsight_server.queries.arrays import JobArray, job_arrays
from jobsight_server.queries.job_filters import NO_FILTERS, JobFilters
from jobsight_server.queries.job_named import named, named_or_task
from jobsight_server.queries.running import WATCHED, forecasts_of, over_bound, used_so_far
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, jobs

SORTS = ("recorded", "end")
"""Sort keys of the list of jobs: each has an index, so that no sort reads all jobs."""

RunState = Annotated[str, Meta(extra_json_schema={"enum": [*STATES]})]


class Run(Record):
    """A run of a job, from the accounting log. ``start`` is None while it waits; between start and end it was suspended
    for ``suspended_s``. ``array_task`` is the task's place in its array, ``4711_2``, where the log also has another id.

    ``asked_processors``, ``asked_memory_bytes`` and ``asked_walltime_s`` are the user's request, where it is known and
    differs from the allocation; 0 is nothing. Values per processor are per requested processor.
    ``failure``: the resource that it ran out of, if the log says so. ``over_bound``: the metrics in which a running job
    already exceeds its recommended reservation.
    """

    cluster: str
    job_id: str
    array_task: str | None
    start: float | None
    end: float | None
    state: RunState
    user: str
    group: str | None
    account: str | None
    name: str | None
    queue: str | None
    created: float | None
    queued: float | None
    eligible: float | None
    processors: int | None
    exit_status: int | None
    failure: Failure | None
    requested_walltime_s: float | None
    requested_memory_bytes: int | None
    requested_nodes: str | None
    asked_processors: int | None
    asked_memory_bytes: int | None
    asked_walltime_s: float | None
    used_cpu_s: float | None
    used_memory_bytes: int | None
    used_walltime_s: float | None
    suspended_s: float | None
    recorded_at: float
    profiled: bool
    over_bound: list[Metric]


class JobList(Page):
    """One page of runs, last recorded first by default; in a search by number, exact ids before tasks of arrays.

    ``arrays``: on the first page of a search by number, those of two tasks or more. ``among_last``: where no index
    finds the runs, the search covered only so many, the last ones; a time range finds older ones.
    """

    jobs: list[Run]
    arrays: list[JobArray]
    among_last: int | None


AMONG_LAST = 100_000
"""Without an index, a list reads at most this many runs."""


def job_list(
    connection: Connection,
    reader: AnswerReader,
    now: float,
    cluster: str | None = None,
    user: str | None = None,
    state: str | None = None,
    page: int = 1,
    job_id: str | None = None,
    filters: JobFilters = NO_FILTERS,
    sort: str = "recorded",
    descending: bool = True,
) -> JobList:
    """Return one page of runs, last recorded first or by ``sort``, with the bounds that running ones already exceed.

    In a span of ends, runs are sorted by end. By end, runs that have not ended are the last to end. In a search by
    number, exact ids are first, then the tasks of arrays, each array's together. ``job_id`` may be the part of the
    log's id before a dot, such as the number before the server's name, or an array's.
    """
    narrowed = filters.conditions()
    among_last = None
    if narrowed and user is None and job_id is None and state in (None, "ended") and not filters.has_index:
        among_last = AMONG_LAST
        last = connection.scalar(select(func.max(jobs.c.id))) or 0
        narrowed.append(jobs.c.id > last - AMONG_LAST)
    if cluster is None and user is not None:
        # In one cluster, an index has the user's runs in order; most sites have one.
        ran_on = connection.scalars(select(job_counts.c.cluster).where(job_counts.c.user == user).distinct()).all()
        cluster = ran_on[0] if len(ran_on) == 1 else None
        narrowed += [] if cluster else [jobs.c.cluster.in_(ran_on or [""])]
    wanted = narrowed + [
        column == value
        for column, value in ((jobs.c.cluster, cluster), (jobs.c.user, user), (jobs.c.state, state))
        if value is not None
    ]
    # In a span of ends, the newest recorded need not be in it: an index has those of the span by their end.
    order = _order("end" if filters.is_span else sort, descending)
    arrays: list[JobArray] = []
    if job_id is not None:
        if page == 1:
            arrays = job_arrays(connection, job_id, wanted)
        wanted.append(named_or_task(connection, job_id))
        order = [case((named(connection, job_id), 0), else_=1), jobs.c.cluster, jobs.c.user, *order]
    if narrowed or job_id is not None:
        total = connection.scalar(select(func.count()).select_from(jobs).where(*wanted)) or 0
    else:
        total = _kept_total(connection, cluster, user, state)
    query = select(jobs).where(*wanted).order_by(*order)
    rows = connection.execute(query.limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)).all()
    running = [row for row in rows if row.state == "running"]
    forecasts, used = forecasts_of(connection, reader, running, WATCHED), used_so_far(connection, running, now)
    listed = [Run.of_row(row, start=started(row), over_bound=over_bound(row.id, forecasts, used)) for row in rows]
    return JobList(page, pages_of(total), total, listed, arrays, among_last)


def _order(sort: str, descending: bool) -> list[ColumnElement[Any]]:
    by_id = jobs.c.id.desc() if descending else jobs.c.id.asc()
    if sort == "recorded":
        return [by_id]
    # Where PostgreSQL has them in its index; SQLite reads its own in two passes.
    return [jobs.c.end.desc().nulls_first() if descending else jobs.c.end.asc().nulls_last(), by_id]


def _kept_total(connection: Connection, cluster: str | None, user: str | None, state: str | None) -> int:
    of = job_counts.c
    given = [column == value for column, value in ((of.cluster, cluster), (of.user, user), (of.state, state)) if value]
    return connection.scalar(select(NUMBER).where(*given)) or 0


def started(run: Row[Any]) -> float | None:
    """Return the start of the run of a row of ``jobs``; None while it waits."""
    return None if run.state == QUEUED else run.start


def job_clusters(connection: Connection, job_id: str) -> list[str]:
    """Return the clusters that know a job of this id, or a task of an array such as ``13_2``."""
    query = select(jobs.c.cluster).where(named(connection, job_id)).distinct().order_by(jobs.c.cluster)
    return [row[0] for row in connection.execute(query)]
