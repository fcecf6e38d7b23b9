"""The owners of a job."""

from __future__ import annotations

from sqlalchemy import Connection, select

from jobsight_server.queries.job_named import named
from jobsight_server.storage.schema import jobs


def owners(connection: Connection, job_id: str, cluster: str | None) -> set[str]:
    """Return the users with runs of this job, in one cluster or in all; empty if there is no such job."""
    query = select(jobs.c.user).where(named(connection, job_id, cluster)).distinct()
    return set(connection.scalars(query))
