"""Routes and pages of matching, a module per noun."""

from __future__ import annotations

from flask import Blueprint

from jobsight_server.systems.matching.pages import definitions, matches, resources
from jobsight_server.systems.matching.service import Matcher
from jobsight_server.systems.matching.settings import MatchingSettings
from jobsight_server.web.kit.routes import AppContext

ROUTES = (*resources.ROUTES, *matches.ROUTES, *definitions.ROUTES)


def add_pages(pages: Blueprint) -> None:
    resources.add_pages(pages)
    matches.add_pages(pages)


def make_part(here: AppContext) -> Matcher:
    settings = here.settings.section(MatchingSettings)
    return Matcher(here.read_engine, here.write_engine, settings, here.answers, here.clock)
