"""Runs of jobs: recent ones, those that filters find, and the tasks of an array in one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta
from sqlalchemy import ColumnElement, Connection, Row, and_, case, distinct, func, literal, or_, select, union_all

from jobsight_server.accounting.last_read import is_running
from jobsight_server.accounting.runs import ENDED, QUEUED, RUNNING, STATES, Failure
from jobsight_server.forecasts import AnswerReader
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.ground.job_names import application
from jobsight_server.ground.listed_rows import page_of_rows
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import NAME, SPAN, TIME, Parameter, above_zero, choice_of, whole_number
from jobsight_server.queries.job_named import named, named_or_task, task_of
from jobsight_server.queries.running import WATCHED, forecasts_of, over_bound, used_so_far
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, job_nodes, jobs, profiles, running_use
from jobsight_server.storage.schema.jobs import (
    ASKED_MEMORY,
    ASKED_PROCESSORS,
    ASKED_WALLTIME,
    MEMORY_SHARE,
    OUTCOME,
    TIME_SHARE,
    memory_share,
    took_s,
)

_INDEXED = ("recorded", "end")
_FEW = 2_000  # runs that are read before they are put in order

RunState = Annotated[str, Meta(extra_json_schema={"enum": [*STATES]})]

KILLED = "killed"
OUTCOMES = (
    "waiting", "running", "requeued", "completed", "failed", "cancelled", "killed: memory", "killed: time", "ended",
)  # fmt: skip
Outcome = Annotated[str, Meta(extra_json_schema={"enum": [*OUTCOMES]})]
_SO_FAR = select(running_use.c.memory).where(running_use.c.run_id == jobs.c.id, jobs.c.state == RUNNING)
_OF_MEMORY = memory_share(jobs.c.peak_memory_bytes, _SO_FAR.scalar_subquery())


def run_columns(now: float) -> tuple[Any, ...]:
    """Return the columns of ``jobs``, and the outcome and shares of ``Run``."""
    until = case((jobs.c.start > now, jobs.c.start), else_=now)  # clocks differ
    so_far_s = until - jobs.c.start - func.coalesce(jobs.c.suspended_s, 0)
    of_time = func.coalesce(TIME_SHARE, case((jobs.c.state != QUEUED, so_far_s / func.nullif(ASKED_WALLTIME, 0))))
    return jobs, OUTCOME.label("outcome"), _OF_MEMORY.label("memory_share"), of_time.label("time_share")


class Run(Record):
    """A run of a job, from the accounting log. ``start`` is None while it waits; between start and end it was suspended
    for ``suspended_s``. ``array_task`` is the task's place in its array, ``4711_2``, where the log also has another id.

    ``asked_processors``, ``asked_memory_bytes`` and ``asked_walltime_s`` are the user's request, where it is known and
    differs from the allocation; 0 is nothing. Values per processor are per requested processor.
    ``memory_is_virtual``: requested and used memory are address space, not resident.
    ``failure``: the resource that it ran out of, if the log says so. ``outcome``: its state in words: *cancelled* by a
    person or the scheduler, or ended by a signal in a log without exit statuses; *ended* if the log has no exit status.
    ``memory_share`` and ``time_share``: use, until now while it runs, as a share of the user's request; memory as
    measured or else as logged. ``over_bound``: the metrics in which a running job already exceeds its recommended
    reservation.
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
    memory_is_virtual: bool | None
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
    outcome: Outcome
    memory_share: float | None
    time_share: float | None
    over_bound: list[Metric]


class ArrayState(Record):
    """The number of runs of an array's tasks in this state."""

    state: str
    runs: int


class JobArray(Record):
    """The tasks of an array that were asked for; a requeued task has several runs.

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


class JobList(ListPage):
    """One page of runs, last recorded first by default; in a search by number, exact ids before tasks of arrays.

    ``arrays``: on the first page of a search by number, those of two tasks or more. ``among_last``: where no index
    finds the runs, the search covered only that many, the latest; a time range finds older ones.
    """

    jobs: list[Run]
    arrays: list[JobArray]
    among_last: int | None


_STORED: Mapping[str, tuple[ColumnElement[Any], Any]] = {
    "memory": (MEMORY_SHARE, literal(-1e300)),
    "time": (TIME_SHARE, literal(-1e300)),
    "outcome": (OUTCOME, ""),
}
"""Sorts by a value that an index has of ended runs, with its least; the shares of running ones grow."""

FOUND_BY = (*OUTCOMES, KILLED)
_PERCENTAGE = above_zero(100)

JOBS = Listing(
    (*_INDEXED, *_STORED),
    steady=_INDEXED,
    is_searched=False,
    filters=(
        Parameter("user", "only this user's", NAME),
        Parameter("state", "only runs in this state", choice_of(STATES)),
        Parameter(
            "job_id",
            "only runs of this job, or of this array's tasks; the domain of the scheduler's server may be left out",
            NAME,
        ),
        Parameter("queue", "only of this queue or partition", NAME),
        Parameter("account", "only of this account", NAME),
        Parameter("application", "only jobs of this name, with or without the number of the run", NAME),
        Parameter("exit_status", "only with this exit status", whole_number(999_999_999, least=-999_999_999)),
        Parameter("node", "only on this node, as the log writes it", NAME),
        Parameter("longer_than_s", "only runs longer than this many seconds", TIME),
        Parameter("used_below", "only runs that used less than this percentage of the requested memory", _PERCENTAGE),
        Parameter("time_below", "only runs that took less than this percentage of the requested time", _PERCENTAGE),
        Parameter("outcome", f"only with this state in words; {KILLED}: out of memory or time", choice_of(FOUND_BY)),
        Parameter("profiled", "no: runs whose use is not known yet", choice_of(("yes", "no"))),
    ),
    span=SPAN,
)
"""The list of jobs. ``job_id`` may be the part of the log's id before a dot, such as the number before the server's
name, or an array's. ``since`` and ``until`` keep runs that ended from the one on and before the other, UTC epoch
seconds, ``longer_than_s`` those that ran for more, suspensions not counted: a run that has not ended is in no span and
of no duration. ``used_below`` compares the measured peak of memory with the user's request."""


def _has_index(of: Mapping[str, Any]) -> bool:
    """Return whether an index finds the runs of these filters, or a superset of them."""
    named_by = ("user", "job_id", "node", "application", "longer_than_s", "since", "until", "outcome")
    return of["profiled"] == "no" or of["state"] not in (None, ENDED) or any(of[name] is not None for name in named_by)


def _is_application(name: str) -> ColumnElement[bool]:
    # An index has applications, of which each name has one.
    of_name = application(name)
    is_own = jobs.c.application.is_(None) if of_name is None else jobs.c.application == of_name
    return or_(jobs.c.application == name, *([] if of_name == name else [and_(is_own, jobs.c.name == name)]))


def _uses_below(percentage: float) -> ColumnElement[bool]:
    # Per run by its key, as the other filters have left few of them.
    exact = select(profiles.c.value).where(
        profiles.c.run_id == jobs.c.id, profiles.c.metric == "memory", profiles.c.lower_bound.is_(False)
    )
    return exact.scalar_subquery() * ASKED_PROCESSORS < percentage / 100 * ASKED_MEMORY


_CONDITIONS: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "queue": jobs.c.queue.__eq__,
    "account": jobs.c.account.__eq__,
    "application": _is_application,
    "exit_status": jobs.c.exit_status.__eq__,
    "node": lambda name: jobs.c.id.in_(select(job_nodes.c.run_id).where(job_nodes.c.node == name)),
    "longer_than_s": lambda seconds: took_s > seconds,
    "outcome": lambda of: OUTCOME.in_([each for each in OUTCOMES if of in (each, each.partition(":")[0])]),
    "used_below": _uses_below,
    "profiled": lambda known: jobs.c.profiled == (known == "yes"),
    "since": lambda time: jobs.c.end >= time,
    "until": lambda time: jobs.c.end < time,
}
"""The conditions of filters, beside user, state and id."""


AMONG_LAST = 100_000
"""Without an index, a list reads at most this many runs."""


def job_list(connection: Connection, reader: AnswerReader, now: float, asked: Asked) -> JobList:
    """Return one page of runs, last recorded first or by ``asked.sort``, with the bounds that running ones exceed.

    Runs without a share are last in an order by it.

    In a span of ends, runs are sorted by end. By end, runs that have not ended are the last to end. In a search by
    number, exact ids are first, then the tasks of arrays, each array's together.
    """
    of, cluster = asked.of, asked.cluster
    user, state, job_id, is_span = of["user"], of["state"], of["job_id"], (of["since"], of["until"]) != (None, None)
    *_, of_time = columns = run_columns(now)
    narrowed = [_CONDITIONS[name](value) for name, value in of.items() if name in _CONDITIONS and value is not None]
    if of["time_below"] is not None:
        narrowed.append(of_time < of["time_below"] / 100)
    among_last = None
    if narrowed and not _has_index(of):
        among_last = AMONG_LAST
        last = connection.scalar(select(func.max(jobs.c.id))) or 0
        narrowed.append(jobs.c.id > last - AMONG_LAST)
    if cluster is None and user is not None:
        # In one cluster, an index has the user's runs in order; most sites have one.
        ran_on = connection.scalars(select(job_counts.c.cluster).where(job_counts.c.user == user).distinct()).all()
        cluster = ran_on[0] if len(ran_on) == 1 else None
        narrowed += [] if cluster else [jobs.c.cluster.in_(ran_on or [""])]
    given = {"cluster": cluster, "user": user, "state": state}
    given = {name: value for name, value in given.items() if value is not None}
    # Few runs are open, so an index of all of a user's runs would read far too many. Nearly all runs have ended, so
    # an index by that state helps as little.
    misleading = {"cluster", "user"} if state in (RUNNING, QUEUED) else {"state"}
    column_of = {name: func.coalesce(jobs.c[name], "") if name in misleading else jobs.c[name] for name in given}
    wanted = narrowed + [column_of[name] == value for name, value in given.items()]
    # In a span of ends, the newest recorded need not be in it: an index has those of the span by their end.
    by_end = is_span or asked.sort == "end"
    order: list[Any] = [jobs.c.end, jobs.c.id] if by_end else [jobs.c.id]
    if asked.sort in _STORED:
        order = [{"memory": _OF_MEMORY, "time": of_time.element, "outcome": OUTCOME}[asked.sort], *order]
    directed = [(column, asked.descending) for column in order]
    arrays: list[JobArray] = []
    if job_id is not None:
        if asked.page == 1 and asked.after is None:
            arrays = job_arrays(connection, job_id, wanted)
        wanted.append(named_or_task(connection, job_id))
        exact = case((named(connection, job_id), 0), else_=1)
        directed = [(exact, False), (jobs.c.cluster, False), (jobs.c.user, False), *directed]
    if state == RUNNING:
        wanted.append(is_running(now))
    if narrowed or job_id is not None or state == RUNNING:
        total = connection.scalar(select(func.count()).select_from(jobs).where(*wanted)) or 0
    else:
        counted = [job_counts.c[name] == value for name, value in given.items()]
        total = connection.scalar(select(NUMBER).where(*counted)) or 0
    if asked.sort in _STORED and not narrowed and not _has_index(of):
        wanted = [_first(*_STORED[asked.sort], wanted, asked)]
    elif of["longer_than_s"] is not None and total <= _FEW:  # else the newest are soon found in order
        wanted = [jobs.c.id.in_(select(jobs.c.id).where(*wanted))]
    is_steady = asked.is_steady and (not by_end or is_span or state == ENDED)
    query = select(*columns).where(*wanted)
    position, shown = page_of_rows(connection, query, directed, replace(asked, is_steady=is_steady), total)
    running = [row for row in shown if row.state == RUNNING]
    forecasts, used = forecasts_of(connection, reader, running, WATCHED), used_so_far(connection, running, now)
    starts, bounds = [started(row) for row in shown], [over_bound(row.id, forecasts, used) for row in shown]
    listed = Run.of_rows(shown, start=starts, over_bound=bounds)
    return JobList(*position, listed, arrays, among_last)


def _first(stored: ColumnElement[Any], least: Any, wanted: Sequence[Any], asked: Asked) -> ColumnElement[bool]:
    """Select the runs of the page asked for in the order of a ``stored`` value, those before it, and all open ones."""
    order = [column.desc() if asked.descending else column.asc() for column in (stored, jobs.c.id)]
    ids = select(jobs.c.id).where(*wanted)
    last = asked.page * asked.limit + 1
    known = ids.where(stored >= least, jobs.c.end.is_not(None)).order_by(*order).limit(last)
    unknown = ids.where(stored.is_(None)).order_by(order[1]).limit(last)
    is_open = ids.where(jobs.c.end.is_(None))
    return jobs.c.id.in_(union_all(*(select(each.subquery()) for each in (known, unknown)), is_open))


def started(run: Row[Any]) -> float | None:
    """Return the start of the run of a row of ``jobs``; None while it waits."""
    return None if run.state == QUEUED else run.start


_GIB_HOUR = 2.0**30 * 3600.0


def job_arrays(connection: Connection, job_id: str, wanted: list[ColumnElement[bool]]) -> list[JobArray]:
    """Return the arrays of this id with two tasks or more, by cluster and user, among the ``wanted`` jobs."""
    in_state = [func.sum(case((jobs.c.state == state, 1), else_=0)).label(f"in_{state}") for state in STATES]
    tasks = func.count(distinct(jobs.c.job_id))
    memory = func.coalesce(jobs.c.peak_memory_bytes * ASKED_PROCESSORS, jobs.c.used_memory_bytes)
    ran_s = jobs.c.end - jobs.c.start - func.coalesce(jobs.c.suspended_s, 0)
    query = (
        select(
            jobs.c.cluster,
            jobs.c.user,
            tasks.label("tasks"),
            func.count().label("runs"),
            func.sum(case((jobs.c.exit_status != 0, 1), else_=0)).label("failed"),
            func.max(memory).label("largest_memory_bytes"),
            func.max(jobs.c.used_cpu_s).label("largest_cpu_s"),
            func.max(ran_s).label("longest_s"),
            func.max(ASKED_MEMORY).label("requested_memory_bytes"),
            func.max(ASKED_WALLTIME).label("requested_walltime_s"),
            func.sum(memory * ran_s / _GIB_HOUR).label("total_memory_gib_hours"),
            func.sum(jobs.c.used_cpu_s).label("total_cpu_s"),
            func.sum(ran_s).label("total_s"),
            *in_state,
        )
        .where(task_of(connection, job_id), *wanted)
        .group_by(jobs.c.cluster, jobs.c.user)
        .having(tasks > 1)
        .order_by(jobs.c.cluster, jobs.c.user)
    )
    return [
        JobArray.of_row(
            row,
            job_id=job_id,
            states=[ArrayState(state, runs) for state in STATES if (runs := row._mapping[f"in_{state}"])],
            requested_memory_bytes=row.requested_memory_bytes or None,  # 0 is none
            requested_walltime_s=row.requested_walltime_s or None,
        )
        for row in connection.execute(query)
    ]
