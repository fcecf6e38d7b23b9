"""What the list of jobs may be narrowed by, beside cluster, user and state."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, or_, select

from jobsight_server.storage.schema import job_nodes, jobs


@dataclass(frozen=True, slots=True)
class JobFilters:
    """None does not narrow. ``node`` is as the log writes it; ``application`` is the job's name."""

    queue: str | None = None
    account: str | None = None
    application: str | None = None
    exit_status: int | None = None
    node: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """All of them must hold."""
        compared = (
            (jobs.c.queue, self.queue),
            (jobs.c.account, self.account),
            (jobs.c.name, self.application),
            (jobs.c.exit_status, self.exit_status),
        )
        found = [column == value for column, value in compared if value is not None]
        if self.node is not None:
            found.append(jobs.c.id.in_(select(job_nodes.c.run_id).where(job_nodes.c.node == self.node)))
        return found


NO_FILTERS = JobFilters()


def of_number(job_id: str) -> ColumnElement[bool]:
    """The job of this id, with or without its server's domain, or the tasks of the array of this id.

    Tasks are ``4711_3`` (Slurm) or ``4711[3].head`` (PBS, TORQUE); ``14711`` and ``47110`` are other jobs.
    """
    begins = [jobs.c.job_id.startswith(f"{job_id}{mark}", autoescape=True) for mark in "._["]
    task = jobs.c.array_task.startswith(f"{job_id}_", autoescape=True)
    return or_(jobs.c.job_id == job_id, jobs.c.array_task == job_id, task, *begins)
