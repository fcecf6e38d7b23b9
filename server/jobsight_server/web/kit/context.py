"""The context of a request, its sender and what they may see, and the headers of its answer.

Each placing system has a part of its own in the context, which the core does not know.

People are users, who see their own jobs and advice, staff, who see everything, or administrators, who also act. They
are known by a header from a proxy that has authenticated them, by a login (a cookie), or by a token of that role. No
other module decides who makes a request and what they may see: users are refused every route or page that does not
declare its restriction to one user's data, so new ones are closed.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar
from urllib.parse import urlencode

from flask import Flask, Response, abort, current_app, g, redirect, request, url_for
from sqlalchemy import Engine
from werkzeug.exceptions import Forbidden, NotFound
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.sessions import LoginFailures, session_owner
from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.forecasts import AnswerReader
from jobsight_server.queries.job_named import owners
from jobsight_server.queries.users import user_clusters
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


PersonRole = Literal["user", "staff", "admin"]
Own = Literal["anyone", "user", "name", "job"]
"""A request's restriction to a user's own data: the parameter ``user`` or ``name`` must be the user's name, or
``name`` a job of theirs. ``anyone``: there is no data of users in it."""

OWN_PAGES: Mapping[str, Own] = MappingProxyType(
    {
        "pages.jobs": "user",
        "pages.jobs_csv": "user",
        "pages.job": "job",
        "pages.user": "name",
    }
)
"""The pages that users may open; every other one is for staff."""

_PEOPLE: Mapping[str, PersonRole] = {"user": "user", "staff": "staff", "admin": "admin"}
_READING = frozenset({"GET", "HEAD"})
_NAME_AT_MOST = 255


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person who makes a request: ``name`` is the user's; None for an administrator by token or by link."""

    role: PersonRole
    name: str | None
    by_proxy: bool = False


def require_role(roles: Collection[str], own: Own | None = None) -> Viewer | None:
    """Reject a request of the API unless its sender may make it; return the viewer, if a person.

    Programs need a token of one of ``roles``, or admin. Staff may read everything, users what ``own`` restricts. A
    login and a proxy's header allow only GET and HEAD, so that no other site can make a browser change anything here.

    Raises:
        AuthError: the request is rejected.
        NotFound: it is for another user's job.
    """
    header = request.headers.get("Authorization")
    reads = request.method in _READING
    found = None
    # Credentials that a proxy has checked, such as Basic ones, may still be there.
    if reads and (header is None or (proxied_name() is not None and not header.lower().startswith("bearer"))):
        found = viewer()
    if found is None:
        people = (("staff", "user") if own else ("staff",)) if reads else ()
        token = context().tokens.authenticate(header, (*roles, *people), context().clock())
        role = _PEOPLE.get(token.role)
        if role is None:
            return None
        found = g.viewer = Viewer(role, token.user)
    if found.role == "user":
        if own is None:
            raise AuthError(403, "this is for staff and administrators: you see your own jobs and advice")
        require_own(found, own)
    return found


def require_page() -> AnyResponse | None:
    """Redirect to the login, or a user to their own data; for ``blueprint.before_request`` of the pages.

    Raises:
        AuthError: the request has no login, or one that may not do this.
        NotFound: it is another user's job.
    """
    if request.endpoint == "pages.static":
        return None
    found = viewer()
    if request.method not in _READING:
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
    if request.endpoint == "pages.now":
        return redirect(_home(found.name), 303)
    own = OWN_PAGES.get(request.endpoint or "")
    if own is None:
        raise AuthError(403, "this page is for staff and administrators: you see your own jobs and advice")
    if own == "user" and not request.args.get("user"):
        others = [(name, value) for name, value in request.args.items(multi=True) if name != "user"]
        return redirect(f"{request.path}?{urlencode([*others, ('user', found.name)])}", 303)
    require_own(found, own)
    return None


def require_own(who: Viewer, own: Own) -> None:
    """Reject a user's request for other data than theirs.

    Raises:
        AuthError: it is not restricted to this user.
        NotFound: it names a job that is not only this user's, as if there were none.
    """
    if own == "anyone":
        return
    given = _given("user" if own == "user" else "name")
    if own == "job":
        clusters = _given("cluster")
        cluster = next(iter(clusters)) if len(clusters) == 1 else None
        for name in given:
            with context().read_engine.connect() as connection:
                whose = owners(connection, name, cluster)
            if whose != {who.name}:
                raise not_found("job", name, cluster)
    elif given != {who.name}:
        raise AuthError(403, f"you see your own data only: ask with {'user' if own == 'user' else 'name'}={who.name}")


def viewer() -> Viewer | None:
    """Return the person who opens a page or reads the API without a token; None without a login."""
    if "viewer" not in g:
        g.viewer = _find_viewer()
    found = g.viewer
    assert found is None or isinstance(found, Viewer)
    return found


def known_viewer() -> Viewer | None:
    """Return the viewer if this request has already found one, for error pages: the database may have failed."""
    found = g.get("viewer")
    return found if isinstance(found, Viewer) else None


def proxied_name() -> str | None:
    """Return the user that the proxy in front has authenticated; None without one.

    Raises:
        Forbidden: the header was sent twice, or is no name.
    """
    here = context()
    if not here.settings.access.login_header or not here.proxies.trusts(request.remote_addr or ""):
        return None
    name = request.headers.get(here.settings.access.login_header)
    if name is None or not name.strip():
        return None
    try:
        name = name.encode("latin-1").decode().strip()
    except UnicodeError:
        name = ""
    if not name or not name.isprintable() or "," in name or len(name) > _NAME_AT_MOST:
        raise Forbidden(
            f"{here.settings.access.login_header} is not the name of one user; the proxy must set it once, and remove "
            "the client's"
        )
    return name


def _find_viewer() -> Viewer | None:
    name = proxied_name()
    if name is not None:
        return Viewer(_role_of(name), name, by_proxy=True)
    secret = request.cookies.get(COOKIE)
    if not secret:
        return None
    with context().read_engine.connect() as connection:
        owner = session_owner(connection, secret, context().clock())
    if owner is None:
        return None
    if owner.role is not None:  # that of the token, revoked with it
        return Viewer(_PEOPLE[owner.role], owner.user)
    return Viewer("admin" if owner.user is None else _role_of(owner.user), owner.user)


def _role_of(name: str) -> PersonRole:
    settings = context().settings.access
    return "admin" if name in settings.admins else "staff" if name in settings.staff else "user"


def _given(name: str) -> set[str]:
    """Return every value under this name."""
    return set(request.args.getlist(name))


def _home(name: str) -> str:
    with context().read_engine.connect() as connection:
        clusters = user_clusters(connection, name)
    if len(clusters) == 1:
        return url_for("pages.user", cluster=clusters[0], name=name)
    return url_for("pages.jobs", user=name)


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


def not_found(noun: str, name: str, cluster: str | None) -> NotFound:
    """Return the error for a name that the cluster, or with None every cluster, lacks."""
    return NotFound(f"no {noun} {name[:60]!r} in {'any cluster' if cluster is None else repr(cluster[:60])}")
