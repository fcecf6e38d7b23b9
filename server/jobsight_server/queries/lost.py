"""Processor time and GPU time that brought nothing: of jobs that ran out of their request, and idle ones."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from jobsight_server.advice.idle import Held
from jobsight_server.decision.evidence import Resource
from jobsight_server.ground.answers import Record
from jobsight_server.profiler.exactness import IDLE
from jobsight_server.savings.sums.add import PROVES_IDLE
from jobsight_server.savings.sums.read import Days, saved_amounts, sums_of_all
from jobsight_server.savings.today import TOOK_S
from jobsight_server.storage.schema import jobs, profiles
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, is_ended


def _profile(metric: str) -> ColumnElement[bool]:
    return and_(profiles.c.run_id == jobs.c.id, profiles.c.metric == metric)


_FAILED = or_(jobs.c.exit_status != 0, jobs.c.ended_abnormally)
# A job that failed with more memory than it requested ran out of it, whatever the log says.
_OUT_OF_MEMORY = and_(_FAILED, ASKED_MEMORY > 0, profiles.c.value * ASKED_PROCESSORS > ASKED_MEMORY)
_METRIC = case((jobs.c.failure == "time", "runtime"), else_="memory").label("metric")
_SPENT = (jobs.c.processors * TOOK_S).label("spent_s")
_KILLED = (
    select(*jobs.c["cluster", "user", "application"], _METRIC, ASKED_PROCESSORS.label("held"), _SPENT)
    .outerjoin(profiles, _profile("memory"))
    .where(is_ended, or_(jobs.c.failure.in_(("time", "memory")), _OUT_OF_MEMORY))
    .subquery()
)
_IDLE = (jobs.c.gpus - func.coalesce(profiles.c.mean, profiles.c.value)) * TOOK_S
_MOST_PROCESSORS = (
    select(jobs.c.user, jobs.c.application, func.max(jobs.c.processors))
    .where(is_ended)
    .group_by(jobs.c.user, jobs.c.application)
)
_IDLE_GPUS = (
    select(
        jobs.c.user,
        jobs.c.application,
        func.max(jobs.c.gpus),
        func.count(),
        func.sum(jobs.c.gpus * TOOK_S),
        func.sum(_IDLE),
    )
    .join(profiles, _profile("gpu_utilisation"))
    .where(is_ended, jobs.c.gpus > 0, or_(profiles.c.mean.is_not(None), profiles.c.value <= PROVES_IDLE * jobs.c.gpus))
    .group_by(jobs.c.user, jobs.c.application)
)
_NAME = func.coalesce(jobs.c.application, "")
_UNSEEN = (
    select(
        jobs.c.user,
        func.min(_NAME),
        func.max(_NAME),
        func.max(jobs.c.processors),
        func.count(),
        func.sum(jobs.c.processors * TOOK_S),
    )
    .join(profiles, _profile("cpu"))
    .where(jobs.c.processors > 0, profiles.c.reason == IDLE.reason)
    .group_by(jobs.c.user)
)


class Killed(Record):
    """Jobs of a user's application that ran out of their own request of ``metric``, and the processor-hours that they
    lost; ``processors`` of most of these hours. ``similar`` of them are those that the advice counts; null until then.
    """

    cluster: str
    user: str
    application: str
    metric: Resource
    processors: int
    jobs: int
    hours: float
    similar: int | None = None

    @property
    def others(self) -> int:
        """Return how many were killed earlier, or with other requests, than those that the advice counts."""
        return max(0, self.jobs - (self.similar or 0))


class IdleUse(Record):
    """Processors or GPUs that jobs of a user's application held, in hours, and how much of that was idle.

    ``most``: the largest number that one job held; 0 is unknown. ``is_seen`` is false for runs that used hardly any CPU
    time of their processors: they were idle, or the batch system did not see their processes. One entry has all of a
    user's, because the cause is how they are started; ``application`` is empty if they are of several.
    """

    user: str
    application: str
    what: Held
    most: int
    jobs: int
    held_hours: float
    idle_hours: float
    is_seen: bool = True

    @property
    def busy(self) -> float:
        """Return the share that was busy."""
        return 1.0 - self.idle_hours / self.held_hours


def killed_jobs(connection: Connection) -> list[Killed]:
    """Return the applications with jobs that ran out of their own requests; those that lost most are first."""
    found: dict[tuple[str, ...], Killed] = {}
    *same, spent_s = _KILLED.c
    hours = func.sum(spent_s) / 3600.0
    query = select(*same, func.count().label("jobs"), hours.label("hours")).group_by(*same).order_by(hours.desc())
    for row in connection.execute(query):
        name = (row.cluster, row.user, row.application or "", row.metric)
        of = found.setdefault(name, Killed(*name, row.held or 1, 0, 0.0))
        of.jobs, of.hours = of.jobs + row.jobs, of.hours + float(row.hours or 0.0)
    return sorted(found.values(), key=lambda one: -one.hours)


def idle_jobs(connection: Connection, days: Days) -> Iterator[IdleUse]:
    """Yield the use of processors and GPUs by application, of the jobs of which it is known, and the unseen runs.

    Logs with the busiest moment of GPUs alone prove only those idle that were never busy.
    """
    of_processors: dict[tuple[str, str], IdleUse] = {}
    most = {(user, name or ""): number for user, name, number in connection.execute(_MOST_PROCESSORS)}
    for _, user, application, *sums in sums_of_all(connection, "cpu", days, "group"):
        key = user, application
        of = of_processors.setdefault(key, IdleUse(*key, "processors", most.get(key) or 0, 0, 0.0, 0.0))
        amounts = saved_amounts(sums, "runtime")
        of.jobs += amounts.jobs
        of.held_hours += amounts.requested_hours
        of.idle_hours += amounts.requested_hours - amounts.used_hours
    yield from of_processors.values()
    for user, first, last, most_processors, number, held_s in connection.execute(_UNSEEN):
        application, hours = first if first == last else "", held_s / 3600.0
        yield IdleUse(user, application, "processors", most_processors, number, hours, hours, is_seen=False)
    for user, application, most_gpus, number, held_s, idle_s in connection.execute(_IDLE_GPUS):
        yield IdleUse(user, application or "", "gpus", most_gpus, number, held_s / 3600.0, idle_s / 3600.0)
