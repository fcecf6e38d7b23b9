"""The applications of a user: use and requests of the jobs of each, and the recommendation for the next one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, bindparam, false, func, select

from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.ground.answers import Record
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import ITS_NAME, NAME, OF_DAYS, Parameter, range_parameters
from jobsight_server.queries.users import Borrowed, borrowed
from jobsight_server.savings.savings import Asking, SavingsRow, saving_row
from jobsight_server.savings.sums.add import METRICS, JobSums
from jobsight_server.savings.sums.kept import date_text, group_name
from jobsight_server.savings.sums.read import Days, saved_amounts, stored_days, sums_of_user, widened, within
from jobsight_server.storage.engine import RUNS, fetch, pieces
from jobsight_server.storage.schema import jobs, profiles
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME, is_ended

RANGE = "90d"
ITS_CLUSTER = Parameter("cluster", "needed if several clusters know the user", NAME)
APPLICATIONS = Listing(
    ("saving", "name"),
    lowest_first=("name",),
    steady=("name",),
    rows=10,  # each costs a recommendation
    of_clusters=False,
    is_searched=False,
    filters=(ITS_NAME, ITS_CLUSTER),
    span=range_parameters(RANGE, OF_DAYS),
)

READ = 100
"""Medians are over this many last jobs of an application."""

_MOST = 0.95
_GPUS = "gpu_utilisation"
_USED = ("memory", "cpu", "runtime")


class Spread(Record):
    """The median of ``jobs`` with a value, and the value that 95 % of them stayed within."""

    jobs: int
    median: float | None
    p95: float | None


class LikeJob(Record):
    """A job, and its user's request for the whole job."""

    job_id: str
    queue: str | None
    processors: int
    memory_bytes: float | None
    walltime_s: float | None


class Application(Record):
    """One application; null for jobs without a name. ``jobs`` ended in the span.

    ``memory``, in bytes per processor, ``cpu``, the share of processors kept busy, and ``runtime``, in seconds, are of
    its last 100 jobs, as are the medians requested. ``memory_advice`` and ``runtime_advice``: as in the
    answer about savings; null where no job is counted. ``like`` is the last job of the application; null where it is
    too long ago. ``ask_lines`` are the recommendation for a similar job, equal to its request where that is best.
    ``borrowed``: the recommendations that rest on others' jobs.
    """

    application: str | None
    jobs: int
    last_end: float
    memory: Spread
    cpu: Spread
    runtime: Spread
    requested_memory_bytes: float | None
    requested_walltime_s: float | None
    memory_advice: SavingsRow | None
    runtime_advice: SavingsRow | None
    like: LikeJob | None
    ask_lines: list[AskLine]
    borrowed: list[Borrowed]


class ApplicationList(ListPage):
    """One page of a user's applications, from ``first_day`` to ``last_day`` (UTC).

    ``gpu_hours_held`` and ``gpu_hours_busy`` are of all jobs whose GPUs' average use is known.
    """

    cluster: str
    user: str
    first_day: str
    last_day: str
    jobs: int
    gpu_hours_held: float
    gpu_hours_busy: float
    applications: list[Application]


def applications(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    user: str,
    days: Days,
    asked: Asked,
    scheduler: Scheduler | None = None,
) -> ApplicationList:
    """Return the applications of jobs that ended in these days, UTC; ``scheduler``: the syntax of the lines."""
    counted = connection.execute(_OF_USER, _chosen(cluster, user, days)).all()
    saved = _saved(connection, cluster, user, days)

    def value(row: Any) -> Any:
        if asked.sort == "name":
            return row.application or ""
        of = saved["memory"].get(_group(cluster, user, row.application))
        return -inf if of is None else saved_amounts(of, "memory").freed_hours, row.jobs

    position, shown = asked.page_of(counted, value, lambda row: (row.application or "",))
    used = _used(connection, cluster, user, days, [row.application for row in shown])
    asking = Asking(connection, reader)
    asking.prepare((cluster, user, _group(cluster, user, row.application)) for row in shown)
    found = []
    for row in shown:
        group = _group(cluster, user, row.application)
        advice: dict[str, SavingsRow | None] = dict.fromkeys(METRICS)
        for metric in METRICS:
            if (sums := saved[metric].get(group)) is not None:
                of_group = (cluster, group)
                advice[metric] = saving_row(asking, user, metric, of_group, sums, [(of_group, sums)])
        # Advice without a name is for the user's last job of any name.
        is_one = row.application is not None or len(counted) == 1
        last = asking.of(cluster, user, group) if is_one else None
        of = used.get(row.application, [])
        found.append(
            Application(
                application=row.application,
                jobs=row.jobs,
                last_end=row.last_end,
                **{metric: _spread([run.used.get(metric) for run in of]) for metric in _USED},
                requested_memory_bytes=_spread([run.memory_bytes for run in of]).median,
                requested_walltime_s=_spread([run.walltime_s for run in of]).median,
                memory_advice=advice["memory"],
                runtime_advice=advice["runtime"],
                like=last and _like(last[0]),
                ask_lines=[] if last is None else lines_to_ask(last[1], scheduler, last[0]),
                borrowed=[] if last is None else borrowed(last[1], ASKED_FOR),
            )
        )
    first, newest = map(date_text, days)
    gpus = [saved_amounts(of, "runtime") for of in saved[_GPUS].values()]  # counted in the same unit
    held, busy = sum(of.requested_hours for of in gpus), sum(of.used_hours for of in gpus)
    number = sum(row.jobs for row in counted)
    return ApplicationList(*position, cluster, user, first, newest, number, held, busy, found)


def _group(cluster: str, user: str, name: str | None) -> str:
    """Return the application's name in the savings."""
    return group_name(cluster, user, name, None, None).application


def _like(run: LastRun) -> LikeJob:
    memory, walltime = run.requested_memory_bytes, run.requested_walltime_s
    return LikeJob(run.job_id, run.queue, run.processors, memory, walltime)


class _Run(NamedTuple):
    memory_bytes: float | None
    walltime_s: float | None
    used: dict[str, float]


def _ended_of(end: ColumnElement[Any]) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for a user's runs that ended in these days."""
    # From the index alone: reading the rows of a user with many jobs takes most of a second.
    of_user = (jobs.c.cluster == bindparam("cluster"), jobs.c.user == bindparam("user"), is_ended)
    return *of_user, end >= bindparam("since"), end < bindparam("until")


_NUMBER, _LAST_END = func.count().label("jobs"), func.max(jobs.c.end).label("last_end")
# A sum, or SQLite would choose the index by end, which lacks the application.
_OF_USER = select(jobs.c.application, _NUMBER, _LAST_END).where(*_ended_of(jobs.c.end + 0)).group_by(jobs.c.application)
_LAST = (
    select(*jobs.c["id", "processors"], ASKED_PROCESSORS, ASKED_MEMORY, ASKED_WALLTIME)
    .where(*_ended_of(jobs.c.end))
    .order_by(jobs.c.end.desc(), jobs.c.id.desc())
    .limit(READ)
)
_LAST_NAMED = _LAST.where(jobs.c.application == bindparam("application"))
_LAST_UNNAMED = _LAST.where(jobs.c.application.is_(None))


def _chosen(cluster: str, user: str, days: Days) -> dict[str, Any]:
    return {"cluster": cluster, "user": user, "since": days.first * DAY_S, "until": (days.last + 1) * DAY_S}


def last_ended(connection: Connection, cluster: str, user: str, application: str | None, days: Days) -> list[Any]:
    """Return id, processors, and the requested processors, memory and time of the last ``READ`` runs of an application
    that ended in these days."""
    name = {} if application is None else {"application": application}
    return fetch(connection, _LAST_NAMED if name else _LAST_UNNAMED, _chosen(cluster, user, days) | name)


def _saved(connection: Connection, cluster: str, user: str, days: Days) -> dict[str, dict[str, JobSums]]:
    """Return the sums of the counted jobs by metric and application."""
    stored = stored_days(connection)
    counted = within(days, stored)
    if stored is None or counted is None:
        return {metric: {} for metric in (*METRICS, _GPUS)}
    whole = widened(counted, stored)
    found = {}
    for metric in (*METRICS, _GPUS):
        of_user = sums_of_user(connection, metric, whole, "application", cluster, user)
        found[metric] = {name: sums for (_, name), sums in of_user.items() if sums.jobs}
    return found


_VALUES = select(profiles.c.run_id, profiles.c.metric, profiles.c.value).where(
    profiles.c.metric.in_(_USED),
    profiles.c.value.is_not(None),
    profiles.c.shown_only == false(),
    profiles.c.run_id.in_(RUNS),
)


def _used(
    connection: Connection, cluster: str, user: str, days: Days, names: Collection[str | None]
) -> dict[str | None, list[_Run]]:
    """Return the last runs of these applications, with request, memory per processor, and use."""
    found: dict[str | None, list[_Run]] = {}
    by_id = {}
    for name in names:
        for run_id, _, processors, memory, walltime in last_ended(connection, cluster, user, name, days):
            run = by_id[run_id] = _Run(memory / (processors or 1) if memory else None, walltime or None, {})
            found.setdefault(name, []).append(run)
    for runs in pieces(list(by_id)):
        for run_id, metric, value in fetch(connection, _VALUES, {"runs": runs}):
            by_id[run_id].used[metric] = value
    return found


def _spread(values: Sequence[float | None]) -> Spread:
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not known.size:
        return Spread(0, None, None)
    return Spread(len(known), float(np.median(known)), float(np.quantile(known, _MOST, method="inverted_cdf")))
