"""Unix groups and accounts: the list."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.groups import GROUP_FIELDS, UserGroupList, user_group_list
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    PAGES_AT_MOST,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
)
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import NAME, PAGE, Parameter, Route, choice_of


def groups() -> UserGroupList:
    by = choice_argument("by", GROUP_FIELDS) or GROUP_FIELDS[0]
    cluster, search = cluster_argument(), name_argument("search")
    number = integer_argument("page", 1, PAGES_AT_MOST)
    with context().read_engine.connect() as connection:
        return user_group_list(connection, by, cluster, search, number)


GROUPS = Route(
    "GET",
    "/api/v1/groups",
    groups,
    ("scheduler",),
    "Unix groups or accounts that ran a job, with their users and jobs; 50 a page",
    (
        Parameter("by", "group (Unix group, the default) or account", choice_of(GROUP_FIELDS)),
        Parameter("cluster", "only those of this cluster", NAME),
        Parameter("search", "only those whose name contains this, ignoring case", NAME),
        Parameter("page", "from 1", PAGE),
    ),
    errors=(400, 404),
)
ROUTES = (GROUPS,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/groups", endpoint="groups")
    def show() -> Response:
        return page(
            "groups.html",
            groups(),
            GROUPS,
            cluster=given("cluster"),
            clusters=clusters_offered(),
            fields=GROUP_FIELDS,
        )
