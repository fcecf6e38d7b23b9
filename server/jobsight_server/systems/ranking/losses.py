"""What failures of machines cost: the processor-hours of jobs that were evicted, requeued or failed there."""

from __future__ import annotations

from sqlalchemy import Connection, and_, func, select

from jobsight_server.queries.machines import MachineLoss
from jobsight_server.storage.schema import jobs
from jobsight_server.systems.ranking.tables import machine_outcomes, machines

_LOST = ("evicted", "requeued", "failed")


def worst_machine(connection: Connection, cluster: str | None, since: float) -> MachineLoss | None:
    """What was lost on the machine that lost most jobs since it is known; None if none lost any since ``since``."""
    counted = machines.c.evictions + machines.c.failures
    query = select(machines.c.id, machines.c.cluster, machines.c.name).where(counted > 0)
    if cluster is not None:
        query = query.where(machines.c.cluster == cluster)
    row = connection.execute(query.order_by(counted.desc(), machines.c.id).limit(1)).one_or_none()
    if row is None:
        return None
    number, hours = lost(connection, row.id, since)
    return MachineLoss(row.cluster, row.name, number, hours, since) if number else None


def lost(connection: Connection, machine_id: int, since: float) -> tuple[int, float]:
    """How many jobs were lost on the machine since ``since``, and their processor-hours, of all their nodes."""
    of = machine_outcomes.c
    same = and_(jobs.c.cluster == of.cluster, jobs.c.job_id == of.job_id, jobs.c.start == of.start)
    hours = func.coalesce(func.sum((of.end - of.start) * func.coalesce(jobs.c.processors, 1)), 0.0) / 3600.0
    query = select(func.count(), hours).select_from(machine_outcomes.outerjoin(jobs, same))
    number, found = connection.execute(
        query.where(of.machine_id == machine_id, of.end >= since, of.outcome.in_(_LOST))
    ).one()
    return int(number), float(found)
