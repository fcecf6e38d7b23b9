"""Alarms that are active."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.alarms import Alarms, active_alarms
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route


def alarms() -> Alarms:
    here = context()
    with here.read_engine.connect() as connection:
        return active_alarms(connection, here.clock())


ALARMS = Route("GET", "/api/v1/alarms", alarms, ("scheduler",), "Active alarms, and messages delivered and failed")
ROUTES = (ALARMS,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/alarms", endpoint="alarms")
    def show() -> Response:
        return page("alarms.html", alarms(), ALARMS, rules=len(context().settings.alarms))
