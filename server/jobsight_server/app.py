"""The query application: the API and the pages."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

from flask import Flask, Response, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, ServiceUnavailable, Unauthorized
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.api import (
    failures,
    health,
    jobs,
    metrics,
    nodes,
    openapi,
    predictions,
    relay,
    site_state,
    users,
)
from jobsight_server.api.reply import error_reply
from jobsight_server.api.routes import register
from jobsight_server.api.shortcut import PredictionShortcut
from jobsight_server.api.unavailable import UnavailableCount
from jobsight_server.auth.failures import LoginFailures
from jobsight_server.auth.login import login
from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.forecasts import AnswerReader, method_of
from jobsight_server.pages import error_page, pages_blueprint
from jobsight_server.settings import Settings
from jobsight_server.site import Site
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.storage.migrate import newest_version
from jobsight_server.storage.outage import driver_outage, outage

log = logging.getLogger(__name__)

ROUTES = (
    *predictions.ROUTES,
    *failures.ROUTES,
    *users.ROUTES,
    *jobs.ROUTES,
    *nodes.ROUTES,
    *site_state.ROUTES,
    *relay.ROUTES,
    *health.ROUTES,
    *metrics.ROUTES,
    *openapi.ROUTES,
)
_NOT_PAGES = frozenset({"/health", "/ready", "/metrics"})

_API_HEADERS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_PAGE_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
)


def create_app(
    settings: Settings, read_engine: Engine, write_engine: Engine, clock: Callable[[], float] = time.time
) -> Flask:
    """The application of one query worker; ``write_engine`` serves logins, simulations, expired reservations."""
    app = Flask(__name__, static_folder=None)
    app.config["MAX_FORM_MEMORY_SIZE"] = 64 * 1024
    method = method_of(settings)
    site = Site(
        settings=settings,
        method=method,
        read_engine=read_engine,
        write_engine=write_engine,
        clock=clock,
        tokens=TokenCache(read_engine),
        clusters=KnownClusters(read_engine, settings.declared_clusters),
        answers=AnswerReader(read_engine, method),
        failures=LoginFailures(),
        schema_version=newest_version(),
    )
    app.extensions["jobsight"] = site
    app.extensions["jobsight_routes"] = ROUTES
    register(app, ROUTES)
    app.register_blueprint(login)
    app.register_blueprint(pages_blueprint())
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(AuthError, _on_auth_error)
    unavailable = UnavailableCount(write_engine)
    for kind in (SQLAlchemyError, read_engine.dialect.loaded_dbapi.Error):
        app.register_error_handler(kind, partial(_on_database_error, unavailable))
    app.after_request(_protect)
    app.wsgi_app = PredictionShortcut(app.wsgi_app, site, ("scheduler",), _API_HEADERS)  # type: ignore[method-assign]
    return app


def _on_http_error(error: HTTPException) -> AnyResponse:
    if error.code is None or error.code < 400:
        return Response(error.get_response().response, headers=error.get_headers())
    if not _is_api():
        return error_page(error)
    headers = {name: value for name, value in error.get_headers() if name not in {"Content-Type", "Content-Length"}}
    return error_reply(error.description or error.name, error.code, headers)


def _on_auth_error(error: AuthError) -> AnyResponse:
    if not _is_api():
        return error_page(Unauthorized(str(error)))
    return error_reply(str(error), error.status, error.headers)


def _on_database_error(unavailable: UnavailableCount, error: Exception) -> AnyResponse:
    """A database that is away, busy or full; what it refuses for its content is a fault of this program.

    Errors of the driver itself come from look-ups that go past SQLAlchemy.
    """
    reason = outage(error) if isinstance(error, SQLAlchemyError) else driver_outage(error)
    if reason is None:
        raise error
    log.warning("%s %s was answered 503: %s", request.method, request.path, reason)
    unavailable.add(reason)
    message = f"{reason}; try again"
    if not _is_api():
        return error_page(ServiceUnavailable(message))
    return error_reply(message, 503, {"Retry-After": "5"})


def _is_api() -> bool:
    return request.path.startswith("/api/") or request.path in _NOT_PAGES


def _protect(response: Response) -> Response:
    if _is_api():
        response.headers.extend(_API_HEADERS)
        return response
    for name, value in _PAGE_HEADERS:
        response.headers.setdefault(name, value)  # a picture has a policy of its own
    if request.endpoint != "pages.static":
        response.headers["Cache-Control"] = "no-cache, private"
    return response
