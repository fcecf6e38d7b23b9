"""The login of people: by a token, or by a one-time link from ``jobsight token login``; the logout; who opens pages."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlencode

from flask import Blueprint, Response, abort, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.sessions import create_session, end_session, redeem_login
from jobsight_server.auth.tokens import AuthError
from jobsight_server.front.wsgi import READING
from jobsight_server.web.kit.routes import COOKIE, Own, context, require_own, viewer

HOME = "/"

login = Blueprint("login", __name__)


@login.get("/login")
def login_form() -> AnyResponse:
    """Show the form; with ``?once=SECRET`` a button, as programs that preview links must not use the login up."""
    secret = request.args.get("once")
    if secret is None and viewer() is not None:
        return redirect(HOME, 303)
    return make_response(render_template("login.html", error=None, once=secret))


@login.post("/login")
def log_in() -> AnyResponse:
    """Log in by a one-time link's secret, or by a token of a person: admin, staff or user."""
    require_same_origin()
    once = request.form.get("once")
    return _log_in(once=once) if once is not None else _log_in(token=request.form.get("token", "").strip())


@login.post("/logout")
def log_out() -> AnyResponse:
    """End the session."""
    require_same_origin()
    secret = request.cookies.get(COOKIE)
    if secret:
        with context().write_engine.begin() as connection:
            end_session(connection, secret)
    response = redirect(url_for("login.login_form"), 303)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
    return response


def _log_in(*, once: str | None = None, token: str | None = None) -> AnyResponse:
    """Log in. The correct secret always works, so that failed logins lock no one out; it is too long to guess."""
    here, now = context(), context().clock()
    session_s = here.settings.session_hours * 3600
    secret: str | None = None
    if once is not None:
        with here.write_engine.begin() as connection:
            secret = redeem_login(connection, once, now, session_s)
        problem = "This login link is unknown, used or older than an hour: `jobsight token login` prints a new one."
    else:
        try:
            known = here.tokens.authenticate(f"Bearer {token}", ("staff", "user"), now)
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
    before = request.cookies.get(COOKIE)
    if before:
        with here.write_engine.begin() as connection:
            end_session(connection, before)
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


OWN_PAGES: Mapping[str, Own] = MappingProxyType(
    {
        "pages.find": "user",
        "pages.mine": "user",
        "pages.jobs": "user",
        "pages.jobs_csv": "user",
        "pages.job": "job",
        "pages.user": "name",
    }
)
"""The pages that users may open; every other one is for staff."""


def require_page() -> AnyResponse | None:
    """Redirect to the login, or a user to their own data; for ``blueprint.before_request`` of the pages.

    Raises:
        AuthError: the request has no login, or one that may not do this.
        NotFound: it is another user's job.
    """
    if request.endpoint == "pages.static":
        return None
    found = viewer()
    if request.method not in READING:
        if found is None:
            raise AuthError(401, "log in first")
        require_same_origin(certainly=found.by_proxy)
        if found.role != "admin":
            raise AuthError(403, "only administrators change things here")
        return None
    if found is None:
        return redirect(url_for("login.login_form"), 303)
    if found.role != "user":
        return None
    assert found.name is not None
    if request.endpoint == "pages.start":
        return redirect(url_for("pages.mine", user=found.name), 303)
    own = OWN_PAGES.get(request.endpoint or "")
    if own is None:
        raise AuthError(403, "this page is for staff and administrators: you see your own jobs and advice")
    if own == "user" and not request.args.get("user"):
        others = [(name, value) for name, value in request.args.items(multi=True) if name != "user"]
        return redirect(f"{request.path}?{urlencode([*others, ('user', found.name)])}", 303)
    require_own(found, own)
    return None


def require_same_origin(*, certainly: bool = False) -> None:
    """Refuse a state-changing request that a browser sent on behalf of another site.

    ``certainly``: refuse one without an origin, too. A proxy's header is added to every request, while the cookie is
    not sent with those of other sites.
    """
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if certainly and fetch_site is None and origin is None:
        abort(403, "this request does not say where it comes from: send Origin, as browsers do")
    if fetch_site is not None and fetch_site not in {"same-origin", "none"}:
        abort(403, f"this request came from another site (Sec-Fetch-Site: {fetch_site})")
    if origin is not None and origin.partition("://")[2] != request.host:
        abort(403, f"this request came from another site (Origin: {origin})")
