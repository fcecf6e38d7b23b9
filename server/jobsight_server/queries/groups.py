"""Unix groups and accounts: the number of users and jobs of each."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.forecasts.record import Asked, ListPage, Record, page_of
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts

GROUP_FIELDS = ("group", "account")
"""Fields that group users."""


class UserGroup(Record):
    """A Unix group or an account that ran a job."""

    cluster: str
    name: str
    users: int
    jobs: int
    first_start: float
    last_end: float | None


class UserGroupList(ListPage):
    """One page of groups ``by`` Unix group or account."""

    groups: list[UserGroup]
    by: Annotated[str, Meta(extra_json_schema={"enum": [*GROUP_FIELDS]})]


GROUP_SORTS = ("name", "cluster", "users", "jobs", "last_end")
BY_NAME = Asked(GROUP_SORTS[0])


def user_group_list(connection: Connection, by: str, asked: Asked = BY_NAME) -> UserGroupList:
    """Return one page of groups that ran a job; ``asked.sort`` is one of ``GROUP_SORTS``."""
    of = job_counts.c
    name = of[by]
    query = (
        select(
            of.cluster,
            name.label("name"),
            func.count(of.user.distinct()).label("users"),
            NUMBER.label("jobs"),
            func.min(of.first_start).label("first_start"),
            func.max(of.last_end).label("last_end"),
        )
        .where(name.is_not(None), of.state != QUEUED)
        .group_by(of.cluster, name)
    )
    if asked.cluster is not None:
        query = query.where(of.cluster == asked.cluster)
    if asked.search:
        query = query.where(name.icontains(asked.search, autoescape=True))
    rows = connection.execute(query)
    position, shown = page_of(
        rows, asked, lambda row: row._mapping[asked.sort], lambda row: (row.name, row.cluster), GROUP_SORTS[:2]
    )
    return UserGroupList(*position, [UserGroup.of_row(row) for row in shown], by)
