"""Answers the most frequent question of schedulers before Flask, which costs more than the answer itself.

Only a valid and complete ``GET /api/v1/predictions?cluster=&user=[&metric=]`` with a sufficient token is answered
here; everything else, including every error, goes to Flask. Tests check that both answers are equal.
"""

from __future__ import annotations

from asyncio import get_running_loop
from concurrent.futures import Executor
from functools import partial
from urllib.parse import parse_qsl

from flask import Flask
from sqlalchemy.exc import SQLAlchemyError

from jobsight_predictor.metrics import METRICS
from jobsight_server.auth.tokens import AuthError
from jobsight_server.front.wsgi import AsgiApp, Receive, Scope, Send
from jobsight_server.web.kit.routes import API_HEADERS, AppContext

_PATH = "/api/v1/predictions"
_KNOWN = frozenset({"cluster", "user", "metric"})
_ROLES = ("scheduler",)
_BODY = frozenset({b"content-length", b"transfer-encoding"})
_HEADERS = [
    (name.lower().encode(), value.encode()) for name, value in (("Content-Type", "application/json"), *API_HEADERS)
]


class StoredPredictions:
    """The ASGI application before ``rest``; ``lane`` runs the look-ups, or the event loop itself if None."""

    def __init__(self, app: Flask, rest: AsgiApp, lane: Executor | None) -> None:
        context: AppContext = app.extensions["jobsight"]
        self._context, self._rest, self._lane = context, rest, lane
        self._errors = (AuthError, SQLAlchemyError, context.read_engine.dialect.loaded_dbapi.Error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = None
        if (
            scope["path"] == _PATH
            and scope["method"] == "GET"
            and not any(name in _BODY for name, _ in scope["headers"])
        ):
            authorization = None
            for name, value in scope["headers"]:
                if name == b"authorization":
                    authorization = value.decode("latin-1") if authorization is None else ""
            look_up = partial(self._answer, scope["query_string"].decode("latin-1"), authorization)
            body = look_up() if self._lane is None else await get_running_loop().run_in_executor(self._lane, look_up)
        if body is None:
            await self._rest(scope, receive, send)
            return
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, query: str, authorization: str | None) -> bytes | None:
        try:
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
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
            self._context.tokens.authenticate(authorization, _ROLES, self._context.clock())
            stored = self._context.answers.stored_reply(cluster, user, metric)
            return None if stored is None else stored.encode()
        except self._errors:
            return None
