"""``/``: the whole site at a glance."""

from __future__ import annotations

from flask import Blueprint, Response

from jobsight_server.pages.twin import respond
from jobsight_server.site import site
from jobsight_server.views.overview import overview


def add_routes(pages: Blueprint) -> None:
    @pages.get("/", endpoint="overview")
    def show() -> Response:
        with site().read_engine.connect() as connection:
            return respond("overview.html", overview(connection, site().clock()))
