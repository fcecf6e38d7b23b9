"""Decides who makes a request and what they may see; no other module does.

People are users, who see their own jobs and advice, staff, who see everything, or administrators, who also act. They
are known by a header from a proxy that has authenticated them, by a login (a cookie), or by a token of that role.
Users are refused every route or page that does not declare its restriction to one user's data, so new ones are closed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlencode

from flask import abort, g, redirect, request, url_for
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.auth.sessions import session_owner
from jobsight_server.auth.tokens import AuthError
from jobsight_server.queries.job_named import owners
from jobsight_server.queries.users import user_clusters
from jobsight_server.web.kit.context import COOKIE, context
from jobsight_server.web.kit.inputs import not_found

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
