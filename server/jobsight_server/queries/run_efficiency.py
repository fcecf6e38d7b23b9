"""The runs of one job, and each one's use of its request."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.record import Record
from jobsight_server.queries.efficiency import Efficiency, efficiencies
from jobsight_server.queries.job_detail import run_profile
from jobsight_server.queries.job_named import named
from jobsight_server.storage.schema import job_nodes, jobs


class RunEfficiency(Record):
    """A run, and its use of its request; none before it has ended.

    ``advice``: the recommended request of a similar job now, as users read it at submission.
    """

    cluster: str
    job_id: str
    user: str
    name: str | None
    start: float | None
    end: float | None
    state: str
    exit_status: int | None
    failure: str | None
    advice: str | None
    efficiency: list[Efficiency]


def run_efficiencies(
    connection: Connection, reader: AnswerReader, job_id: str, user: str | None = None
) -> list[RunEfficiency]:
    """Return all runs of jobs of this id, or of this array task, by cluster and start; of ``user`` only, if given.

    Empty without any: jobs that never started are not stored.
    """
    query = select(jobs).where(named(connection, job_id)).order_by(jobs.c.cluster, jobs.c.start)
    if user is not None:
        query = query.where(jobs.c.user == user)
    found = []
    for run in connection.execute(query).all():
        held = select(func.count()).select_from(job_nodes).where(job_nodes.c.run_id == run.id)
        nodes = connection.scalar(held) or 0
        advice, _, efficiency = efficiencies(connection, reader, run, run_profile(connection, run), nodes)
        found.append(
            RunEfficiency(
                cluster=run.cluster,
                job_id=run.job_id,
                user=run.user,
                name=run.name,
                start=None if run.state == QUEUED else run.start,
                end=run.end,
                state=run.state,
                exit_status=run.exit_status,
                failure=run.failure,
                advice=advice,
                efficiency=efficiency,
            )
        )
    return found
