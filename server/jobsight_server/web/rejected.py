"""Rejected data, by reason, with the stored examples."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.rejected import Rejected, rejected_data
from jobsight_server.web.context import context
from jobsight_server.web.pages import page
from jobsight_server.web.routes import Route


def rejected() -> Rejected:
    with context().read_engine.connect() as connection:
        return rejected_data(connection)


REJECTED = Route(
    "GET",
    "/api/v1/rejected",
    rejected,
    (),
    "Everything counted, quarantined batches and rejected accounting lines with their reasons",
)
ROUTES = (REJECTED,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/rejected", endpoint="rejected")
    def show() -> Response:
        return page("rejected.html", rejected(), REJECTED)
