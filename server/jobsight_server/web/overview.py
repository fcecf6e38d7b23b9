"""The site as a whole: its figures, and rejected input by reason, with the kept examples."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.overview import Overview
from jobsight_server.queries.overview import overview as read_overview
from jobsight_server.queries.rejected import Rejected, rejected_data
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route


def overview() -> Overview:
    with context().read_engine.connect() as connection:
        return read_overview(connection, context().clock())


def rejected() -> Rejected:
    with context().read_engine.connect() as connection:
        return rejected_data(connection)


OVERVIEW = Route(
    "GET",
    "/api/v1/overview",
    overview,
    (),
    "Nodes, freshness, ingest rate, jobs, forecast accuracy, rejected input",
)
REJECTED = Route(
    "GET",
    "/api/v1/rejected",
    rejected,
    (),
    "All event counts, quarantined batches and rejected accounting lines with their reasons",
)
ROUTES = (OVERVIEW, REJECTED)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/rejected", endpoint="rejected")
    def show_rejected() -> Response:
        return page("rejected.html", rejected(), REJECTED)
