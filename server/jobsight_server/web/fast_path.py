"""Answers the most frequent question of schedulers before Flask, which costs more than the answer itself.

Only a valid and complete ``GET /api/v1/predictions?cluster=&user=[&metric=]`` with a sufficient token is answered
here; everything else, including every error, goes to Flask. Tests check that both answers are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from sqlalchemy.exc import SQLAlchemyError

from jobsight_predictor.metrics import METRICS
from jobsight_server.auth.tokens import AuthError
from jobsight_server.web.context import AppContext

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_PATH = "/api/v1/predictions"
_KNOWN = frozenset({"cluster", "user", "metric"})


class PredictionFastPath:
    """Wraps the application's ``wsgi_app``."""

    def __init__(
        self, app: WSGIApplication, context: AppContext, roles: tuple[str, ...], headers: Iterable[tuple[str, str]]
    ) -> None:
        self._app, self._context, self._roles = app, context, roles
        self._headers = [("Content-Type", "application/json"), *headers]
        self._errors = (AuthError, SQLAlchemyError, context.read_engine.dialect.loaded_dbapi.Error)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == _PATH and environ["REQUEST_METHOD"] == "GET":
            body = self._answer(environ)
            if body is not None:
                start_response("200 OK", [*self._headers, ("Content-Length", str(len(body)))])
                return (body,)
        return self._app(environ, start_response)

    def _answer(self, environ: WSGIEnvironment) -> bytes | None:
        try:
            pairs = parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            return None
        asked = dict(pairs)
        cluster, user, metric = asked.get("cluster"), asked.get("user"), asked.get("metric")
        if len(asked) != len(pairs) or not asked.keys() <= _KNOWN or not (cluster and user):
            return None
        if not (cluster.isprintable() and user.isprintable()) or (metric is not None and metric not in METRICS):
            return None
        try:
            if cluster not in self._context.clusters:  # Flask's error names the known ones
                return None
            self._context.tokens.authenticate(environ.get("HTTP_AUTHORIZATION"), self._roles, self._context.clock())
            stored = self._context.answers.stored_reply(cluster, user, metric)
            return None if stored is None else stored.encode()
        except self._errors:
            return None
