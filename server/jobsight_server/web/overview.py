"""The site as a whole."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.overview import Overview
from jobsight_server.queries.overview import overview as read_overview
from jobsight_server.web.context import context
from jobsight_server.web.pages import page
from jobsight_server.web.routes import Route


def overview() -> Overview:
    with context().read_engine.connect() as connection:
        return read_overview(connection, context().clock())


OVERVIEW = Route(
    "GET",
    "/api/v1/overview",
    overview,
    (),
    "Nodes, freshness, ingest rate, jobs, forecast accuracy, savings, what was rejected",
)
ROUTES = (OVERVIEW,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/", endpoint="overview")
    def show() -> Response:
        return page("overview.html", overview(), OVERVIEW)
