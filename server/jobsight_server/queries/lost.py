"""Processor time and GPU time that brought nothing: of jobs that ran out of their request, and idle ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sqlalchemy import Connection

from jobsight_server.decision.evidence import Resource
from jobsight_server.ground.answers import Record
from jobsight_server.profiler.exactness import IDLE
from jobsight_server.savings.savings import Days, saved_amounts, sums_of_all
from jobsight_server.savings.today import MEMORY, PROCESSORS, TOOK_S
from jobsight_server.storage.engine import fetch

GPU_IDLE = 0.05
"""Busiest moment of a job's GPUs that proves them idle; a busier one says nothing of the rest of the time."""

_OF_LOG = "WHERE state = 'ended'"
# A job that failed with more memory than it requested ran out of it, whatever the log says.
_KILLED = (
    "SELECT cluster, \"user\", application, CASE failure WHEN 'time' THEN 'runtime' ELSE 'memory' END AS metric, "
    f"{PROCESSORS}, count(*), sum(processors * {TOOK_S}) / 3600.0 AS hours FROM jobs LEFT JOIN profiles p "
    f"ON p.run_id = jobs.id AND p.metric = 'memory' {_OF_LOG} AND (failure IN ('time', 'memory') OR "
    f"((exit_status <> 0 OR ended_abnormally) AND {MEMORY} > 0 AND p.value * {PROCESSORS} > {MEMORY})) "
    "GROUP BY 1, 2, 3, 4, 5 ORDER BY hours DESC"
)
_IDLE_GPUS = (
    f"SELECT \"user\", coalesce(application, ''), count(*), sum(jobs.gpus * {TOOK_S}) / 3600.0, "
    f"sum((jobs.gpus - coalesce(p.mean, p.value)) * {TOOK_S}) / 3600.0 FROM jobs JOIN profiles p ON p.run_id = jobs.id "
    f"AND p.metric = 'gpu_utilisation' {_OF_LOG} AND jobs.gpus > 0 "
    f"AND (p.mean IS NOT NULL OR p.value <= {GPU_IDLE} * jobs.gpus) GROUP BY 1, 2"
)
_UNSEEN = (
    f'SELECT "user", count(*), sum(processors * {TOOK_S}) / 3600.0 AS hours FROM jobs JOIN profiles p '
    "ON p.run_id = jobs.id AND p.metric = 'cpu' WHERE processors > 0 AND p.reason = ? GROUP BY 1 ORDER BY hours DESC"
)


class Killed(Record):
    """Jobs of a user's application that ran out of their own request of ``metric``, and the processor-hours that they
    lost; ``processors`` of most of these hours."""

    cluster: str
    user: str
    application: str
    metric: Resource
    processors: int
    jobs: int
    hours: float


class IdleUse(Record):
    """Processors or GPUs that jobs of a user's application held, in hours, and how much of that was idle."""

    user: str
    application: str
    what: Literal["processors", "gpus"]
    jobs: int
    held_hours: float
    idle_hours: float


class Unseen(Record):
    """A user's runs that used hardly any CPU time of their processors, and the processor-hours that they held."""

    user: str
    jobs: int
    hours: float


def killed_jobs(connection: Connection) -> list[Killed]:
    """Return the applications with jobs that ran out of their own requests; those that lost most are first."""
    found: dict[tuple[str, ...], Killed] = {}
    for cluster, user, application, metric, processors, jobs, hours in fetch(connection, _KILLED, ()):
        of = found.setdefault(
            (cluster, user, application or "", metric),
            Killed(cluster, user, application or "", metric, processors or 1, 0, 0.0),
        )
        of.jobs, of.hours = of.jobs + int(jobs), of.hours + float(hours or 0.0)
    return sorted(found.values(), key=lambda one: -one.hours)


def idle_jobs(connection: Connection, days: Days) -> Iterator[IdleUse]:
    """Yield the use of processors and GPUs by application, of the jobs of which it is known.

    Logs with the busiest moment of GPUs alone prove only those idle that were never busy.
    """
    of_processors: dict[tuple[str, str], IdleUse] = {}
    for _, user, application, *sums in sums_of_all(connection, "cpu", days, "group"):
        of, hours = (
            of_processors.setdefault((user, application), IdleUse(user, application, "processors", 0, 0.0, 0.0)),
            (saved_amounts(sums, "runtime")),
        )
        of.jobs += hours["jobs"]
        of.held_hours += hours["requested_hours"]
        of.idle_hours += hours["requested_hours"] - hours["used_hours"]
    yield from of_processors.values()
    for user, application, jobs, held, idle in fetch(connection, _IDLE_GPUS, ()):
        yield IdleUse(user, application, "gpus", int(jobs), float(held), float(idle))


def unseen_runs(connection: Connection) -> list[Unseen]:
    """Return the users with runs that were idle or not seen by the batch system; those that held most are first."""
    return [Unseen(user, int(runs), float(hours)) for user, runs, hours in fetch(connection, _UNSEEN, (IDLE.reason,))]
