"""The jobs of one user on all clusters: what was killed lately and why, what was wasted, what waits and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from jobsight_server.accounting.runs import QUEUED, RUNNING
from jobsight_server.advice.words import AskLine, scheduler_of
from jobsight_server.forecasts import AnswerReader
from jobsight_server.ground.answers import Record
from jobsight_server.ground.job_names import application
from jobsight_server.queries.efficiency import NextRequests
from jobsight_server.queries.jobs import JOBS, KILLED, JobList, Run, job_list
from jobsight_server.queries.users import user_clusters
from jobsight_server.savings.savings import Asking
from jobsight_server.savings.sums.kept import GroupName, known_ids
from jobsight_server.savings.sums.read import Days
from jobsight_server.savings.use import Use, months, uses
from jobsight_server.savings.waste import DAYS_SHOWN, WASTE, WasteList, newest_day, waste
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import job_nodes, jobs

WEEK_S = 7 * 86_400.0
KILLED_LISTED = 5
"""Applications that jobs were killed of: each costs a recommendation."""
_READ = 1000


class KilledJobs(Record):
    """Killed ``jobs`` of one application, which ran out of the same resource: the last, the recommended request of the
    next as users read it at submission, and as lines of a job script."""

    jobs: int
    last: Run
    advice: str | None
    ask_lines: list[AskLine]


class ClusterUse(Record):
    """The use of a cluster in the newest thirty days with counted jobs, and in the thirty ``before``; null without a
    counted job."""

    cluster: str
    month: Use | None
    before: Use | None


class MyJobs(Record):
    """A user's jobs. ``killed_jobs`` ended within seven days; ``killed`` are those of the applications with most of
    them. ``months``: the use of each cluster. ``waste``: of each cluster, with the application that left most memory
    unused."""

    user: str
    clusters: list[str]
    killed_jobs: int
    killed: list[KilledJobs]
    months: list[ClusterUse]
    waste: list[WasteList]
    running: JobList
    waiting: JobList
    jobs: JobList


def my_jobs(
    connection: Connection,
    reader: AnswerReader,
    now: float,
    user: str,
    listed: JobList,
    sources: Iterable[AccountingSource],
    cluster: str | None = None,
) -> MyJobs:
    """Return the overview of one user, on all clusters or one, above the page ``listed`` of their jobs; ``sources``
    name the schedulers."""
    clusters = [each for each in user_clusters(connection, user) if cluster in (None, each)]
    of_week = JOBS.asked("end", cluster=cluster, limit=_READ, user=user, since=now - WEEK_S, outcome=KILLED)
    ran_out = job_list(connection, reader, now, of_week)
    alike: dict[tuple[str, str | None, str | None], list[Run]] = defaultdict(list)
    for run in ran_out.jobs:
        alike[run.cluster, run.name and application(run.name), run.failure].append(run)
    most = sorted(alike.values(), key=len, reverse=True)[:KILLED_LISTED]
    asking, last_day = Asking(connection, reader), newest_day(connection) or 0
    return MyJobs(
        user,
        clusters,
        ran_out.total,
        [_killed(connection, reader, runs, sources) for runs in most],
        months=_months(connection, user, clusters),
        waste=[_waste(connection, asking, cluster, user, last_day) for cluster in clusters],
        running=job_list(connection, reader, now, JOBS.asked(cluster=cluster, user=user, state=RUNNING)),
        waiting=job_list(connection, reader, now, JOBS.asked(cluster=cluster, user=user, state=QUEUED)),
        jobs=listed,
    )


def _months(connection: Connection, user: str, clusters: list[str]) -> list[ClusterUse]:
    spans = months(connection)
    ids = known_ids(connection, [GroupName(cluster, user, "", "", "") for cluster in clusters]).values()
    if spans is None:
        return []
    month, before = (uses(connection, days, "user", ids=ids) for days in spans)
    found = [ClusterUse(cluster, month.get((cluster, user)), before.get((cluster, user))) for cluster in clusters]
    return [each for each in found if each.month or each.before]


def _killed(
    connection: Connection, reader: AnswerReader, runs: list[Run], sources: Iterable[AccountingSource]
) -> KilledJobs:
    last = runs[0]
    of_run = (jobs.c.cluster == last.cluster, jobs.c.job_id == last.job_id, jobs.c.start == last.start)
    row = connection.execute(select(jobs).where(*of_run)).one()
    held = connection.scalar(select(func.count()).where(job_nodes.c.run_id == row.id)) or 0
    scheduler = scheduler_of(connection, sources, last.cluster)
    advice, lines, _ = NextRequests(connection, reader).efficiencies(row, (), held, scheduler)
    return KilledJobs(len(runs), last, advice, lines)


def _waste(connection: Connection, asking: Asking, cluster: str, user: str, last_day: int) -> WasteList:
    most_unused = WASTE.asked("memory", cluster=cluster, limit=1, by="application", user=user)
    return waste(connection, asking, most_unused, Days(last_day - DAYS_SHOWN + 1, last_day))
