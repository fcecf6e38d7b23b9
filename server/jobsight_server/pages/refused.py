"""``/refused``: what was refused, by reason, with the kept examples."""

from __future__ import annotations

from flask import Blueprint, Response

from jobsight_server.pages.twin import respond
from jobsight_server.site import site
from jobsight_server.views.refused import refused


def add_routes(pages: Blueprint) -> None:
    @pages.get("/refused", endpoint="refused")
    def show() -> Response:
        with site().read_engine.connect() as connection:
            return respond("refused.html", refused(connection))
