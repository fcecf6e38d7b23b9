"""Unix groups and accounts: who runs what, and the profile of each, like a user's."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from sqlalchemy import Connection, Subquery, func, select

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.runs import QUEUED
from jobsight_server.forecasts.history import UserGroupKey, read_group_series
from jobsight_server.forecasts.request import GROUP_FIELDS, ForecastConfig
from jobsight_server.record import PAGE_SIZE, Page, Record, Share, pages_of
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts

_EACH_OF_FIVE = {"propertyNames": {"enum": [*FIVE]}, "required": [*FIVE]}
_EACH_METRIC = Meta(extra_json_schema={"propertyNames": {"enum": [*METRICS]}, "required": [*METRICS]})


class UserGroupMetric(Record):
    """A group's profile in one metric, from the finished jobs of all its users: PQM and the published five.

    ``n``: values learned; ``updated``: end of the last job learned.
    """

    n: int
    pqm: Share | None
    recent_pqm: Share | None
    forecasts: Annotated[dict[str, float | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    accuracy: Annotated[dict[str, Share | None], Meta(extra_json_schema=_EACH_OF_FIVE)]
    updated: float


class UserGroup(Record):
    """A Unix group or an account that ran a job; a profile is null before anything was learned in that metric."""

    cluster: str
    name: str
    users: int
    jobs: int
    first_start: float
    last_end: float | None
    metrics: Annotated[dict[str, UserGroupMetric | None], _EACH_METRIC]


class UserGroupList(Page):
    """One page of groups ``by`` Unix group or account. ``profiled``: the setting ``job_groups`` has that field, so that
    profiles are kept.
    """

    groups: list[UserGroup]
    by: Annotated[str, Meta(extra_json_schema={"enum": [*GROUP_FIELDS]})]
    profiled: bool
    search: str | None


def user_group_list(
    connection: Connection,
    config: ForecastConfig,
    by: str,
    cluster: str | None = None,
    search: str | None = None,
    page: int = 1,
) -> UserGroupList:
    """One page of groups that ran a job, by name; ``search`` keeps those whose name contains it, in any case."""
    grouped = _grouped(by, cluster, search)
    total = connection.scalar(select(func.count()).select_from(grouped)) or 0
    query = select(grouped).order_by(grouped.c.name, grouped.c.cluster).limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)
    groups = [
        UserGroup.of_row(row, metrics=_metrics(connection, UserGroupKey(row.cluster, by, row.name)))
        for row in connection.execute(query).all()
    ]
    return UserGroupList(page, pages_of(total), total, groups, by, by in config.group_fields, search)


def _metrics(connection: Connection, key: UserGroupKey) -> dict[str, UserGroupMetric | None]:
    found: dict[str, UserGroupMetric | None] = dict.fromkeys(METRICS)
    for metric, series, updated in read_group_series(connection, key):
        answer = series.answer()
        found[metric] = UserGroupMetric(
            answer.n, answer.pqm, answer.recent_pqm, answer.forecasts, answer.accuracies, updated
        )
    return found


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
