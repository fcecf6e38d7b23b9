"""Groups of similar jobs: what they requested and used, and what they get now."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, func, select

from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.request import question_of_text
from jobsight_server.record import PAGE_SIZE, Page, Record, pages_of
from jobsight_server.requirements.ask import enough, predicted
from jobsight_server.requirements.config import JOBSIGHT, RequirementConfig
from jobsight_server.requirements.groups import estimate
from jobsight_server.storage.schema import requirement_groups


class RequirementGroup(Record):
    """Jobs with the same request that share the fields shown; null if the group does not distinguish by the field.

    ``asked`` counts submissions, ``finished`` and ``failed`` those that were reported. ``used_bytes`` is the largest
    use reported, ``given_bytes`` what the next job would be given, ``freed_bytes`` what the finished jobs requested
    and were not given.
    """

    id: int
    cluster: str
    user: str | None
    application: str | None
    queue: str | None
    processors: int | None
    walltime_s: float | None
    requested_bytes: int
    used_bytes: int | None
    given_bytes: int
    asked: int
    finished: int
    failed: int
    freed_bytes: float
    last_asked: float


class RequirementGroups(Page):
    """One page of groups, the one that set most memory free first; the sums are over all groups."""

    groups: list[RequirementGroup]
    asked: int
    finished: int
    failed: int
    freed_bytes: float
    estimator: str
    capacities_bytes: list[int]


def requirement_group_list(
    connection: Connection,
    config: RequirementConfig,
    reader: AnswerReader,
    cluster: str | None = None,
    page: int = 1,
) -> RequirementGroups:
    """The groups of one cluster or of all."""
    here = [] if cluster is None else [requirement_groups.c.cluster == cluster]
    counted = [func.sum(requirement_groups.c[name]) for name in ("asked", "finished", "failed", "freed_bytes")]
    total, *sums = connection.execute(select(func.count(), *counted).where(*here)).one()
    query = (
        select(requirement_groups)
        .where(*here)
        .order_by(requirement_groups.c.freed_bytes.desc(), requirement_groups.c.id)
        .limit(PAGE_SIZE)
        .offset((page - 1) * PAGE_SIZE)
    )
    groups = [_group(connection, config, reader, row) for row in connection.execute(query).all()]
    asked, finished, failed = (int(number or 0) for number in sums[:3])
    capacities = [int(capacity) for capacity in config.capacities]
    return RequirementGroups(
        page, pages_of(total), total, groups, asked, finished, failed, sums[3] or 0.0, config.name, capacities
    )


def _group(connection: Connection, config: RequirementConfig, reader: AnswerReader, row: Row[Any]) -> RequirementGroup:
    job = question_of_text(row.question)
    if config.name == JOBSIGHT:
        given = enough(
            config, predicted(connection, reader, row.cluster, job, row.requested_bytes), row.requested_bytes
        )
    else:
        given = estimate(connection, config, row.cluster, job, row.requested_bytes)
    fields = ("user", "application", "queue", "processors", "requested_time_s")
    user, application, queue, processors, walltime_s = (
        getattr(job, field) if field in config.group else None for field in fields
    )
    return RequirementGroup.of_row(
        row,
        user=user,
        application=application,
        queue=queue,
        processors=processors,
        walltime_s=walltime_s,
        given_bytes=given,
    )
