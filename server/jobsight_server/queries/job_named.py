"""Runs of the job, task or array of an id, as people and schedulers write it: the one rule for all callers."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, func, not_, select, union_all

from jobsight_server.ground.job_ids import job_key
from jobsight_server.storage.engine import begins
from jobsight_server.storage.schema import jobs


def named(connection: Connection, job_id: str, cluster: str | None = None) -> ColumnElement[bool]:
    """Select the job of this id, with or without its server's domain, or the array task; in any cluster or this one."""
    return _any_of(_exact(connection, job_id), cluster)


def named_or_task(connection: Connection, job_id: str) -> ColumnElement[bool]:
    """Select the same, or the tasks of the array of this id.

    Tasks are ``4711_3`` (Slurm), ``4711[3].head`` (PBS, TORQUE) or ``4711.3`` (Grid Engine), parts of a heterogeneous
    job ``4711+1`` (Slurm); ``14711`` and ``47110`` are other jobs.
    """
    return _any_of([*_exact(connection, job_id), *_tasks(connection, job_id)])


def task_of(connection: Connection, job_id: str) -> ColumnElement[bool]:
    """Select the tasks of the array of this id."""
    return _any_of(_tasks(connection, job_id))


def is_task(job_id: str, array_task: str | None, of: str) -> bool:
    """Return whether a run is of a task of the array ``of``, as ``task_of`` finds them."""
    of_server = job_id.removeprefix(f"{of}.")
    return (
        (array_task or "").startswith((f"{of}_", f"{of}+"))
        or job_id.startswith((f"{of}_", f"{of}["))
        or (of_server != job_id and of_server[:1].isdigit())
    )


def owners(connection: Connection, job_id: str, cluster: str | None) -> set[str]:
    """Return the users with runs of this job, in one cluster or in all; empty if there is no such job."""
    return set(connection.scalars(select(jobs.c.user).where(named(connection, job_id, cluster)).distinct()))


def job_clusters(connection: Connection, job_id: str) -> list[str]:
    """Return the clusters that know a job of this id, or a task of an array such as ``13_2``."""
    query = select(jobs.c.cluster).where(named(connection, job_id)).distinct().order_by(jobs.c.cluster)
    return list(connection.scalars(query))


def _any_of(conditions: list[ColumnElement[bool]], cluster: str | None = None) -> ColumnElement[bool]:
    # Each by its own index, and the cluster with it: planners may read the whole table for OR, or a whole cluster.
    here = [] if cluster is None else [jobs.c.cluster == cluster]
    return jobs.c.id.in_(union_all(*(select(jobs.c.id).where(condition, *here) for condition in conditions)))


def _exact(connection: Connection, job_id: str) -> list[ColumnElement[bool]]:
    key = job_key(job_id)
    task = and_(jobs.c.array_task.is_not(None), jobs.c.array_task == job_id)
    with_server = and_(begins(connection, jobs.c.job_id, f"{key}."), not_(_after_dot_is_digit(key)))
    return [jobs.c.job_id.in_({job_id, key}), task, with_server]


def _tasks(connection: Connection, job_id: str) -> list[ColumnElement[bool]]:
    tasks = [
        and_(jobs.c.array_task.is_not(None), begins(connection, jobs.c.array_task, f"{job_id}{mark}")) for mark in "_+"
    ]
    of_grid_engine = and_(begins(connection, jobs.c.job_id, f"{job_id}."), _after_dot_is_digit(job_id))
    return [*tasks, of_grid_engine, *(begins(connection, jobs.c.job_id, f"{job_id}{mark}") for mark in "_[")]


def _after_dot_is_digit(before: str) -> ColumnElement[bool]:
    # The dot precedes a task's number, or the name of a server.
    return func.substr(jobs.c.job_id, len(before) + 2, 1).between("0", "9")
