"""The context of a request, and the headers of its answer.

Each placing system has a part of its own here, which the core does not know.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flask import Flask, Response, current_app, request
from sqlalchemy import Engine

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.sessions import LoginFailures
from jobsight_server.auth.tokens import TokenCache
from jobsight_server.forecasts import AnswerReader
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class AppContext:
    """The objects that views use. ``create_app`` makes it once; a view gets it from ``context()``."""

    settings: Settings
    read_engine: Engine
    write_engine: Engine
    clock: Callable[[], float]
    tokens: TokenCache
    clusters: KnownClusters
    answers: AnswerReader
    failures: LoginFailures
    proxies: TrustedProxies
    munge: MungeUsers


def context() -> AppContext:
    """Return the context of the application that handles the current request."""
    found = current_app.extensions["jobsight"]
    assert isinstance(found, AppContext)
    return found


def add_part(app: Flask, part: object) -> None:
    """Add the part that the views of one system use."""
    app.extensions.setdefault("jobsight_parts", []).append(part)


def part(kind: type[Part]) -> Part:
    """Return the part of this type of the application that handles the current request."""
    return next(made for made in current_app.extensions["jobsight_parts"] if isinstance(made, kind))


COOKIE = "jobsight_session"

_NOT_PAGES = frozenset({"/health", "/ready", "/metrics"})
_COMPRESSED_FROM_BYTES = 1400  # what fits into one packet anyway stays as it is
_LEVEL = 4  # of gzip; higher ones take twice the time for some per cent
API_HEADERS = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
_PAGE_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
)


def is_api() -> bool:
    """Return whether the current request is from a program."""
    return request.path.startswith("/api/") or request.path in _NOT_PAGES


def protect(response: Response) -> Response:
    """Add the headers; for ``after_request`` of the application."""
    if is_api():
        response.headers.extend(API_HEADERS)
        return _compressed(response)
    for name, value in _PAGE_HEADERS:
        response.headers.setdefault(name, value)  # a plot has a policy of its own
    if request.endpoint != "pages.static":
        response.headers["Cache-Control"] = "no-cache, private"
        return response
    response.direct_passthrough = False
    response.make_sequence()  # a script or a style, of 50 kB at most
    response.close()  # its file
    return _compressed(response)


def _compressed(response: Response) -> Response:
    """Return the answer, as gzip if the client accepts it and it saves enough.

    Not for pages: they hold secrets of forms beside text of the request, so their size would reveal them (BREACH).
    """
    if response.status_code != 200 or response.is_streamed or not request.accept_encodings.quality("gzip"):
        return response
    data = response.get_data()
    if len(data) >= _COMPRESSED_FROM_BYTES and "Content-Encoding" not in response.headers:
        response.set_data(gzip.compress(data, _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
        response.vary.add("Accept-Encoding")
    return response
