"""What the list of jobs may be narrowed by, beside cluster, user and state."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, or_, select

from jobsight_server.storage.schema import job_nodes, jobs


@dataclass(frozen=True, slots=True)
class JobFilters:
    """None does not narrow. ``node`` is as the log writes it; ``application`` is the job's name, or what it stands for.

    Runs that ended from ``since`` on and before ``until``, UTC epoch seconds, and that ran for more than
    ``longer_than_s``, suspensions not counted: a run that has not ended is in no span and of no duration.
    """

    queue: str | None = None
    account: str | None = None
    application: str | None = None
    exit_status: int | None = None
    node: str | None = None
    since: float | None = None
    until: float | None = None
    longer_than_s: float | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """All of them must hold."""
        compared = (
            (jobs.c.queue, self.queue),
            (jobs.c.account, self.account),
            (jobs.c.exit_status, self.exit_status),
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
        if self.node is not None:
            found.append(jobs.c.id.in_(select(job_nodes.c.run_id).where(job_nodes.c.node == self.node)))
        return found


NO_FILTERS = JobFilters()


def of_number(job_id: str) -> ColumnElement[bool]:
    """The job of this id, with or without its server's domain, or the tasks of the array of this id.

    Tasks are ``4711_3`` (Slurm) or ``4711[3].head`` (PBS, TORQUE); ``14711`` and ``47110`` are other jobs.
    """
    return or_(exactly(job_id), task_of(job_id))


def exactly(job_id: str) -> ColumnElement[bool]:
    """The job or the task of this id, with or without its server's domain."""
    domain = jobs.c.job_id.startswith(f"{job_id}.", autoescape=True)
    # NULL, as most jobs are of no array, would make the whole neither true nor false.
    return or_(jobs.c.job_id == job_id, and_(jobs.c.array_task.is_not(None), jobs.c.array_task == job_id), domain)


def task_of(job_id: str) -> ColumnElement[bool]:
    """The tasks of the array of this id."""
    begins = [jobs.c.job_id.startswith(f"{job_id}{mark}", autoescape=True) for mark in "_["]
    task = jobs.c.array_task.startswith(f"{job_id}_", autoescape=True)
    return or_(and_(jobs.c.array_task.is_not(None), task), *begins)


def is_task(job_id: str, array_task: str | None, of: str) -> bool:
    """Whether a run is of a task of the array ``of``, as ``task_of`` finds them."""
    return (array_task or "").startswith(f"{of}_") or job_id.startswith((f"{of}_", f"{of}["))
