"""What the list of jobs may be narrowed by, beside cluster, user and state."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select, union_all

from jobsight_server.forecasts.request import ASKED_MEMORY, ASKED_PROCESSORS
from jobsight_server.storage.engine import begins
from jobsight_server.storage.schema import job_nodes, jobs, profiles


@dataclass(frozen=True, slots=True)
class JobFilters:
    """None does not narrow. ``node`` is as the log writes it; ``application`` is the job's name, or what it stands for.

    Runs that ended from ``since`` on and before ``until``, UTC epoch seconds, and that ran for more than
    ``longer_than_s``, suspensions not counted: a run that has not ended is in no span and of no duration.
    ``used_below``: runs whose measured peak of memory is less than this share of what their user asked for.
    ``profiled``: whether what they used is known, or was looked for.
    """

    queue: str | None = None
    account: str | None = None
    application: str | None = None
    exit_status: int | None = None
    node: str | None = None
    since: float | None = None
    until: float | None = None
    longer_than_s: float | None = None
    used_below: float | None = None
    profiled: bool | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """All of them must hold."""
        compared = (
            (jobs.c.queue, self.queue),
            (jobs.c.account, self.account),
            (jobs.c.exit_status, self.exit_status),
            (jobs.c.profiled, self.profiled),
        )
        found = [column == value for column, value in compared if value is not None]
        if self.application is not None:
            found.append(or_(jobs.c.name == self.application, jobs.c.application == self.application))
        if self.since is not None:
            found.append(jobs.c.end >= self.since)
        if self.until is not None:
            found.append(jobs.c.end < self.until)
        if self.longer_than_s is not None:
            found.append(jobs.c.end - jobs.c.start - func.coalesce(jobs.c.suspended_s, 0) > self.longer_than_s)
        if self.used_below is not None:
            # Of each run by its key, as the other filters have left few of them.
            used = select(profiles.c.value).where(
                profiles.c.run_id == jobs.c.id, profiles.c.metric == "memory", profiles.c.lower_bound.is_(False)
            )
            found.append(used.scalar_subquery() * ASKED_PROCESSORS < self.used_below * ASKED_MEMORY)
        if self.node is not None:
            found.append(jobs.c.id.in_(select(job_nodes.c.run_id).where(job_nodes.c.node == self.node)))
        return found


NO_FILTERS = JobFilters()


def of_number(connection: Connection, job_id: str) -> ColumnElement[bool]:
    """The job of this id, with or without its server's domain, or the tasks of the array of this id.

    Tasks are ``4711_3`` (Slurm) or ``4711[3].head`` (PBS, TORQUE); ``14711`` and ``47110`` are other jobs.
    """
    return _any_of(*_exact(connection, job_id), *_tasks(connection, job_id))


def exactly(connection: Connection, job_id: str) -> ColumnElement[bool]:
    """The job or the task of this id, with or without its server's domain."""
    return _any_of(*_exact(connection, job_id))


def task_of(connection: Connection, job_id: str) -> ColumnElement[bool]:
    """The tasks of the array of this id."""
    return _any_of(*_tasks(connection, job_id))


def _any_of(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    # Each by its own index: planners may read the whole table for OR.
    return jobs.c.id.in_(union_all(*(select(jobs.c.id).where(condition) for condition in conditions)))


def _exact(connection: Connection, job_id: str) -> list[ColumnElement[bool]]:
    task = and_(jobs.c.array_task.is_not(None), jobs.c.array_task == job_id)
    return [jobs.c.job_id == job_id, task, begins(connection, jobs.c.job_id, f"{job_id}.")]


def _tasks(connection: Connection, job_id: str) -> list[ColumnElement[bool]]:
    task = and_(jobs.c.array_task.is_not(None), begins(connection, jobs.c.array_task, f"{job_id}_"))
    return [task, *(begins(connection, jobs.c.job_id, f"{job_id}{mark}") for mark in "_[")]


def is_task(job_id: str, array_task: str | None, of: str) -> bool:
    """Whether a run is of a task of the array ``of``, as ``task_of`` finds them."""
    return (array_task or "").startswith(f"{of}_") or job_id.startswith((f"{of}_", f"{of}["))
