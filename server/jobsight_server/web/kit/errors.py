"""Answers to failed requests: JSON under /api, a page elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flask import Flask, Response, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, NotFound, default_exceptions
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.tokens import AuthError
from jobsight_server.ground.errors import RefusedError
from jobsight_server.ground.outage import driver_outage, outage
from jobsight_server.ingest import SAMPLES
from jobsight_server.web.kit.pages import error_page
from jobsight_server.web.kit.routes import context, error_reply, is_api

log = logging.getLogger(__name__)

_SHOWN = 100


def answer_errors(app: Flask, engine: Engine) -> None:
    """Answer every error of ``app``, also those of the database of ``engine``."""
    app.register_error_handler(HTTPException, _on_http_error)
    for refusal in (AuthError, RefusedError):
        app.register_error_handler(refusal, _on_refused)
    # Look-ups that bypass SQLAlchemy raise errors of the driver itself.
    for kind in (SQLAlchemyError, engine.dialect.loaded_dbapi.Error):
        app.register_error_handler(kind, _on_database_error)


def _on_http_error(error: HTTPException) -> AnyResponse:
    if error.code is None or error.code < 400:
        return Response(error.get_response().response, headers=error.get_headers())
    if not is_api():
        return error_page(error)
    headers = {name: value for name, value in error.get_headers() if name not in {"Content-Type", "Content-Length"}}
    return error_reply(_message(error), error.code, headers)


def _message(error: HTTPException) -> str:
    if isinstance(error, NotFound) and error.description == NotFound.description:  # no route matched
        if request.path == SAMPLES:
            writer = context().settings.ingest_listen
            address = f"to http://{writer}" if writer else "to that of the server with the writer"
            return f"agents send to the writer: set `server` in agent.toml {address}, or to the proxy before it"
        return f"{request.path[:_SHOWN]!r} is not an address of this API; GET /api/v1/openapi.json lists them"
    return error.description or error.name


def _on_refused(error: AuthError | RefusedError) -> AnyResponse:
    return _answer(str(error), error.status, error.headers if isinstance(error, AuthError) else {})


def _answer(message: str, status: int, headers: Mapping[str, str]) -> AnyResponse:
    return error_reply(message, status, headers) if is_api() else error_page(default_exceptions[status](message))


def _on_database_error(error: Exception) -> AnyResponse:
    """Answer 503: the database is unreachable, busy or full. An error caused by content would be our bug."""
    reason = outage(error) if isinstance(error, SQLAlchemyError) else driver_outage(error)
    if reason is None:
        raise error
    log.warning("%s %s was answered 503: %s", request.method, request.path, reason)
    return _answer(f"{reason}; try again", 503, {"Retry-After": "5"})
