"""The search at the top of every page: the page of what has this name, or a list of what begins with it."""

from __future__ import annotations

from flask import Blueprint, redirect, url_for
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.queries.find import Found, FoundList
from jobsight_server.queries.find import find as find_names
from jobsight_server.web.kit.inputs import name_argument
from jobsight_server.web.kit.pages import node_url, page, user_url
from jobsight_server.web.kit.routes import Route, reading


def find() -> FoundList:
    return find_names(reading(), (name_argument("text") or "").strip(), name_argument("user"))


FIND = Route(
    "/api/v1/find",
    find,
    "Jobs, users, applications, accounts and nodes of this name, or else those that begin with it",
    (Parameter("text", "the name or id", NAME), Parameter("user", "only this user's jobs", NAME)),
    own="user",
)
ROUTES = (FIND,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/find", endpoint="find")
    def show() -> AnyResponse:
        found, user = find(), name_argument("user")
        links = [(each, _url(each, user)) for each in found.found]
        return redirect(links[0][1], 303) if len(links) == 1 else page("find.html", found, FIND, links=links)


def _url(found: Found, user: str | None) -> str:
    if found.kind == "application":
        return url_for("pages.jobs", application=found.name, user=user)
    if found.kind == "account":
        return url_for("pages.jobs", account=found.name, user=user)
    if found.kind == "job":
        return url_for("pages.jobs", job_id=found.name, cluster=found.cluster, user=user)
    return (user_url if found.kind == "user" else node_url)(found.cluster or "", found.name)
