"""Access check of a request: by bearer token, or by the login cookie of the pages."""

from __future__ import annotations

from collections.abc import Collection

from flask import abort, redirect, request, url_for
from werkzeug.wrappers import Response

from jobsight_server.auth.sessions import session_is_valid
from jobsight_server.auth.tokens import AuthError
from jobsight_server.web.context import context

COOKIE = "jobsight_session"


def require_role(roles: Collection[str]) -> None:
    """Ends the request unless it has a token of one of ``roles`` (or admin), or reads with a login cookie.

    The cookie allows only GET and HEAD, so that no other site can make a browser change anything here.

    Raises:
        AuthError: not let in.
    """
    header = request.headers.get("Authorization")
    if header is None and request.method in {"GET", "HEAD"} and has_session():
        return
    context().tokens.authenticate(header, roles, context().clock())


def require_login() -> Response | None:
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
    """Refuses a state-changing request that another site had a browser send."""
    fetch_site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if fetch_site is not None and fetch_site not in {"same-origin", "none"}:
        abort(403, f"this request came from another site (Sec-Fetch-Site: {fetch_site})")
    if origin is not None and origin.partition("://")[2] != request.host:
        abort(403, f"this request came from another site (Origin: {origin})")
