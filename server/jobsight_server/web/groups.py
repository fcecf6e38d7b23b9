"""Unix groups and accounts: the list."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.groups import GROUP_FIELDS, SORTS, UserGroupList, user_group_list
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import Parameter, Route, choice_of


def groups() -> UserGroupList:
    with context().read_engine.connect() as connection:
        return user_group_list(connection, LISTING.filtered()["by"] or GROUP_FIELDS[0], LISTING.asked())


_BY = Parameter("by", "group (Unix group, the default) or account", choice_of(GROUP_FIELDS))
LISTING = Listing(SORTS, lowest_first=SORTS[:2], filters=(_BY,))
GROUPS = Route(
    "GET",
    "/api/v1/groups",
    groups,
    ("scheduler",),
    "Unix groups or accounts that ran a job, with their users and jobs",
    LISTING.parameters,
    errors=(400, 404),
)
ROUTES = (GROUPS,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/groups", endpoint="groups")
    def show() -> Response:
        return page("groups.html", groups(), GROUPS, listing=LISTING, clusters=clusters_offered(), fields=GROUP_FIELDS)
