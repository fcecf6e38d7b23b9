"""The query application: the API and the pages."""

from __future__ import annotations

import time
from collections.abc import Callable

from flask import Blueprint, Flask, request
from sqlalchemy import Engine
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.login_rate import LoginFailures
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.tokens import TokenCache
from jobsight_server.forecasts import AnswerReader, forecast_config
from jobsight_server.matching.service import Matcher
from jobsight_server.offers.config import plan_config
from jobsight_server.offers.seller import PlaceSeller
from jobsight_server.reliability.config import rank_config
from jobsight_server.reliability.ranker import MachineRanker
from jobsight_server.requirements import requirement_config
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.storage.migrate import newest_version
from jobsight_server.web import (
    advice,
    efficiency,
    groups,
    health,
    jobs,
    machines,
    matches,
    nodes,
    objectives,
    offers,
    openapi,
    outcomes,
    overview,
    plan,
    policies,
    predictions,
    requirements,
    resource_types,
    resources,
    risk,
    samples_proxy,
    savings,
    simulations,
    units,
    users,
)
from jobsight_server.web.context import AppContext, add_part
from jobsight_server.web.errors import answer_errors
from jobsight_server.web.guard import login, protect, require_login
from jobsight_server.web.pages import job_url, node_url, user_url
from jobsight_server.web.routes import register

NOUNS_WITH_PAGES = (
    overview,
    savings,
    users,
    groups,
    jobs,
    nodes,
    machines,
    requirements,
    plan,
    resources,
    matches,
    simulations,
)
ROUTES = tuple(
    route
    for noun in (
        outcomes,
        predictions,
        advice,
        efficiency,
        *NOUNS_WITH_PAGES,
        resource_types,
        policies,
        objectives,
        risk,
        offers,
        samples_proxy,
        health,
        openapi,
    )
    for route in noun.ROUTES
)


def create_app(
    settings: Settings, read_engine: Engine, write_engine: Engine, clock: Callable[[], float] = time.time
) -> Flask:
    """The application of one query worker; ``write_engine`` stores what requests change, such as logins and offers."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_FORM_MEMORY_SIZE"] = 64 * 1024
    answers = AnswerReader(read_engine, forecast_config(settings))
    app.extensions["jobsight"] = AppContext(
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
        schema_version=newest_version(),
    )
    for of_system in (
        requirement_config(settings),
        Matcher(read_engine, write_engine, settings, answers, clock),
        PlaceSeller(plan_config(settings)),
        MachineRanker(rank_config(settings)),
    ):
        add_part(app, of_system)
    app.extensions["jobsight_routes"] = ROUTES
    register(app, ROUTES)
    app.register_blueprint(login)
    app.register_blueprint(_pages())
    app.jinja_env.globals.update(units.FOR_TEMPLATES, user_url=user_url, job_url=job_url, node_url=node_url)
    app.jinja_env.filters.update(units.FILTERS)
    answer_errors(app, read_engine, write_engine)
    app.after_request(protect)
    return app


def _pages() -> Blueprint:
    """All pages, behind the login, and the stylesheet and scripts, which are open: the login form needs them."""
    pages = Blueprint("pages", __name__, template_folder="templates", static_folder="static", static_url_path="/assets")
    for noun in NOUNS_WITH_PAGES:
        noun.add_pages(pages)

    @pages.before_request
    def guard() -> AnyResponse | None:
        return None if request.endpoint == "pages.static" else require_login()

    return pages
