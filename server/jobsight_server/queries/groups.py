"""Unix groups and accounts: the number of users and jobs of each."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection, Subquery, func, select

from jobsight_server.accounting.runs import QUEUED
from jobsight_server.forecasts.record import Page, Record, pages_of
from jobsight_server.queries.in_order import window
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


class UserGroupList(Page):
    """One page of groups ``by`` Unix group or account."""

    groups: list[UserGroup]
    by: Annotated[str, Meta(extra_json_schema={"enum": [*GROUP_FIELDS]})]
    search: str | None


def user_group_list(
    connection: Connection,
    by: str,
    cluster: str | None = None,
    search: str | None = None,
    page: int = 1,
) -> UserGroupList:
    """Return one page of groups that ran a job, by name; ``search`` keeps names that contain it, in any case."""
    grouped = _grouped(by, cluster, search)
    total = connection.scalar(select(func.count()).select_from(grouped)) or 0
    query = select(grouped).order_by(grouped.c.name, grouped.c.cluster).slice(window(page).start, window(page).stop)
    groups = [UserGroup.of_row(row) for row in connection.execute(query)]
    return UserGroupList(page, pages_of(total), total, groups, by, search)


def _grouped(by: str, cluster: str | None, search: str | None) -> Subquery:
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
    if cluster is not None:
        query = query.where(of.cluster == cluster)
    if search:
        query = query.where(name.icontains(search, autoescape=True))
    return query.subquery()
