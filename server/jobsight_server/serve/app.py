"""The query application: the API and the pages."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from types import ModuleType

from flask import Blueprint, Flask
from jinja2 import ChoiceLoader, PackageLoader
from sqlalchemy import Engine

from jobsight_server import web
from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.sessions import LoginFailures
from jobsight_server.auth.tokens import TokenCache
from jobsight_server.decision.lately import Lately
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.queries.node_states import Machines
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.systems.listed import systems
from jobsight_server.web import (
    accuracy,
    advice,
    efficiency,
    find,
    health,
    jobs,
    network,
    nodes,
    now,
    open_jobs,
    openapi,
    outcomes,
    predictions,
    queue,
    savings,
    users,
    waste,
)
from jobsight_server.web.kit import units
from jobsight_server.web.kit.errors import answer_errors
from jobsight_server.web.kit.login import login, require_page
from jobsight_server.web.kit.moved import add_moved
from jobsight_server.web.kit.pages import add_pages, job_url, node_url, user_url
from jobsight_server.web.kit.routes import AppContext, Route, end_reading, known_viewer, protect, register
from jobsight_server.web.kit.system_parts import add_part

OF_SYSTEMS = tuple(system.module("pages") for system in systems())
"""Modules of nouns, with ``menu``, and ``make_part``, which makes the context of its views."""
NOUNS: tuple[ModuleType, ...] = (
    outcomes, predictions, advice, efficiency, open_jobs, now, waste, savings, accuracy, users, queue, jobs, nodes,
    network, find, *OF_SYSTEMS, health, openapi,
)  # fmt: skip
"""Modules with ``ROUTES``, and ``add_pages`` where a page is more than the answer of a route."""
ROUTES: tuple[Route, ...] = tuple(route for noun in NOUNS for route in noun.ROUTES)
_TEMPLATES = tuple(
    package
    for package in ("jobsight_server.web", *(system.package for system in systems()))
    if (files(package) / "templates").is_dir()
)


def create_app(
    settings: Settings, read_engine: Engine, write_engine: Engine, clock: Callable[[], float] = time.time
) -> Flask:
    """Return the application of one query worker; ``write_engine`` stores changes by requests, such as logins and
    offers.
    """
    app = Flask(__name__, static_folder=None)
    app.config["MAX_FORM_MEMORY_SIZE"] = 64 * 1024
    answers = AnswerReader(forecast_config(settings))
    here = AppContext(
        settings=settings,
        read_engine=read_engine,
        write_engine=write_engine,
        clock=clock,
        tokens=TokenCache(read_engine),
        clusters=KnownClusters(read_engine, settings.declared_clusters),
        answers=answers,
        failures=LoginFailures(),
        proxies=TrustedProxies(settings.trusted_proxies),
        munge=MungeUsers(settings.munge_socket),
        lately=Lately(),
    )
    app.extensions["jobsight"] = here
    for made in (*(pages.make_part(here) for pages in OF_SYSTEMS), Machines()):  # the last where no system rates them
        add_part(app, made)
    app.extensions["jobsight_menus"] = [pages.menu for pages in OF_SYSTEMS]
    app.extensions["jobsight_routes"] = ROUTES
    register(app, ROUTES)
    add_moved(app)
    app.jinja_loader = ChoiceLoader([PackageLoader(package) for package in _TEMPLATES])
    app.register_blueprint(login)
    app.register_blueprint(_pages())
    app.jinja_env.globals.update(units.FOR_TEMPLATES, user_url=user_url, job_url=job_url, node_url=node_url)
    app.jinja_env.globals["known_viewer"] = known_viewer
    app.jinja_env.filters.update(units.FILTERS)
    answer_errors(app, read_engine)
    app.after_request(protect)
    app.teardown_appcontext(end_reading)
    return app


def _pages() -> Blueprint:
    """Return all pages, each with its access rule; stylesheet and scripts are open, as the login form needs them."""
    pages = Blueprint("pages", web.__name__, static_folder="static", static_url_path="/assets")
    add_pages(pages, ROUTES)
    for noun in NOUNS:
        if hasattr(noun, "add_pages"):
            noun.add_pages(pages)
    pages.before_request(require_page)
    return pages
