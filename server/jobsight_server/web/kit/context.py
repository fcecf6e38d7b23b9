"""What a request works with, and who may make it: by bearer token, or by the cookie that ``/login`` gives.

Each placing system has a part of its own here, which the core does not know.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    current_app,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from sqlalchemy import Engine
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.sessions import LoginFailures, create_session, end_session, redeem_login, session_is_valid
from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.forecasts import AnswerReader
from jobsight_server.settings import Settings
from jobsight_server.storage.clusters import KnownClusters

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class AppContext:
    """Made once by ``create_app``; a view gets it from ``context()``."""

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
    schema_version: str | None


def context() -> AppContext:
    """The context of the application that handles the current request."""
    found = current_app.extensions["jobsight"]
    assert isinstance(found, AppContext)
    return found


def add_part(app: Flask, part: object) -> None:
    """Adds what the views of one system work with."""
    app.extensions.setdefault("jobsight_parts", {})[type(part)] = part


def part(kind: type[Part]) -> Part:
    """The part of this type that belongs to the application handling the current request."""
    found = current_app.extensions["jobsight_parts"][kind]
    assert isinstance(found, kind)
    return found


COOKIE = "jobsight_session"
HOME = "/"

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

login = Blueprint("login", __name__)


def is_api() -> bool:
    """Whether the current request comes from a program."""
    return request.path.startswith("/api/") or request.path in _NOT_PAGES


def protect(response: Response) -> Response:
    """For ``after_request`` of the application: adds the headers."""
    if is_api():
        response.headers.extend(API_HEADERS)
        return _compressed(response)
    for name, value in _PAGE_HEADERS:
        response.headers.setdefault(name, value)  # a plot has a policy of its own
    if request.endpoint != "pages.static":
        response.headers["Cache-Control"] = "no-cache, private"
    return response


def _compressed(response: Response) -> Response:
    """The answer as gzip where the client takes it and it is worth it.

    Not for pages: they hold secrets of forms beside what a request says, which their size would give away (BREACH).
    """
    if response.status_code != 200 or response.is_streamed or not request.accept_encodings.quality("gzip"):
        return response
    data = response.get_data()
    if len(data) >= _COMPRESSED_FROM_BYTES and "Content-Encoding" not in response.headers:
        response.set_data(gzip.compress(data, _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
        response.vary.add("Accept-Encoding")
    return response


def require_role(roles: Collection[str]) -> None:
    """Rejects the request unless it has a token of one of ``roles`` (or admin), or only reads, with a login cookie.

    The cookie allows only GET and HEAD, so that no other site can make a browser change anything here.

    Raises:
        AuthError: the request is rejected.
    """
    header = request.headers.get("Authorization")
    if header is None and request.method in {"GET", "HEAD"} and has_session():
        return
    context().tokens.authenticate(header, roles, context().clock())


def require_login() -> AnyResponse | None:
    """For ``blueprint.before_request`` of the pages: redirects to the login without a session."""
    if has_session():
        return None
    if request.method in {"GET", "HEAD"}:
        return redirect(url_for("login.login_form"), 303)
    raise AuthError(401, "log in first")


def has_session() -> bool:
    """Whether the request's cookie names a valid session."""
    secret = request.cookies.get(COOKIE)
    if not secret:
        return False
    with context().read_engine.connect() as connection:
        return session_is_valid(connection, secret, context().clock())


def require_same_origin() -> None:
    """Refuses a state-changing request that a browser sent on behalf of another site."""
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if fetch_site is not None and fetch_site not in {"same-origin", "none"}:
        abort(403, f"this request came from another site (Sec-Fetch-Site: {fetch_site})")
    if origin is not None and origin.partition("://")[2] != request.host:
        abort(403, f"this request came from another site (Origin: {origin})")


@login.get("/login")
def login_form() -> AnyResponse:
    """The form; with ``?once=SECRET`` the one-time login itself."""
    secret = request.args.get("once")
    if secret is not None and request.method == "GET":  # a HEAD, as link checkers send, must not use it up
        return _log_in(once=secret)
    if has_session():
        return redirect(HOME, 303)
    return make_response(render_template("login.html", error=None))


@login.post("/login")
def log_in() -> AnyResponse:
    """Logs in by an admin's token."""
    require_same_origin()
    return _log_in(token=request.form.get("token", "").strip())


@login.post("/logout")
def log_out() -> AnyResponse:
    """Ends the session."""
    require_same_origin()
    secret = request.cookies.get(COOKIE)
    if secret:
        with context().write_engine.begin() as connection:
            end_session(connection, secret)
    response = redirect(url_for("login.login_form"), 303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
    return response


def _log_in(*, once: str | None = None, token: str | None = None) -> AnyResponse:
    """The correct secret always logs in, so that failed logins lock no one out; it is too long to be guessed."""
    here, now = context(), context().clock()
    session_s = here.settings.session_hours * 3600
    secret: str | None = None
    if once is not None:
        with here.write_engine.begin() as connection:
            secret = redeem_login(connection, once, now, session_s)
        problem = "This login link is unknown, used or older than an hour: `jobsight token login` prints a new one."
    else:
        try:
            known = here.tokens.authenticate(f"Bearer {token}", ("admin",), now)
        except AuthError as error:
            problem = f"Login failed: {error}."
        else:
            with here.write_engine.begin() as connection:
                secret = create_session(connection, known.id, now, session_s)
    if secret is None:
        address = here.proxies.client(request.remote_addr or "", request.headers.get("X-Forwarded-For", ""))
        wait_s = here.failures.wait_s(address, now)
        if wait_s > 0:
            response = _refused("Too many failed logins; wait a minute.", 429)
            response.headers["Retry-After"] = str(int(wait_s) + 1)
            return response
        here.failures.add(address, now)
        return _refused(problem, 401)
    response = make_response(redirect(HOME, 303))
    response.set_cookie(
        COOKIE,
        secret,
        max_age=int(session_s),
        path="/",
        httponly=True,
        samesite="Strict",
        secure=here.settings.cookie_secure,
    )
    return response


def _refused(problem: str, status: int) -> Response:
    return make_response(render_template("login.html", error=problem), status)
