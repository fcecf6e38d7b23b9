"""Routes and pages of matching, a module per noun."""

from __future__ import annotations

from flask import Blueprint
from sqlalchemy import Connection, exists, select

from jobsight_server.systems.listed import rated_machines
from jobsight_server.systems.matching.pages import definitions, matches, resources
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.systems.matching.tables import matches as stored_matches
from jobsight_server.systems.matching.tables import resources as stored_resources
from jobsight_server.web.kit.pages import Menu
from jobsight_server.web.kit.routes import AppContext

ROUTES = (*resources.ROUTES, *matches.ROUTES, *definitions.ROUTES)


def add_pages(pages: Blueprint) -> None:
    matches.add_pages(pages)


def menu(connection: Connection) -> Menu:
    """Return the pages of the menu, none before there is a resource or a match."""
    used = (connection.scalar(select(exists().select_from(of))) for of in (stored_resources, stored_matches))
    return (("pages.resources", "Resources", ()), ("pages.matches", "Matches", ("pages.match",))) if any(used) else ()


def make_part(here: AppContext) -> Matcher:
    settings = here.settings.section(MatchingSettings)
    machines = rated_machines(here.settings)
    return Matcher(here.read_engine, here.write_engine, settings, here.answers, here.clock, machines)
