"""``/api/v1/overview`` and ``/api/v1/refused``: the site as a whole."""

from __future__ import annotations

from flask import Response

from jobsight_server.api.reply import json_reply
from jobsight_server.api.routes import Route
from jobsight_server.site import site
from jobsight_server.views.overview import overview
from jobsight_server.views.refused import refused


def show_overview() -> Response:
    with site().read_engine.connect() as connection:
        return json_reply(overview(connection, site().clock()))


def show_refused() -> Response:
    with site().read_engine.connect() as connection:
        return json_reply(refused(connection))


ROUTES = (
    Route(
        "GET",
        "/api/v1/overview",
        show_overview,
        (),
        "Nodes, freshness, ingest rate, jobs and what was refused",
        "Overview",
    ),
    Route(
        "GET",
        "/api/v1/refused",
        show_refused,
        (),
        "Everything counted, quarantined batches and rejected accounting lines with their reasons",
        "Refused",
    ),
)
