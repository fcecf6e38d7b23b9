"""Requests and routes: the context of a request, its sender and what they may see, and the routes of the API.

People are users, who see their own jobs and advice, staff, who see everything, or administrators, who also act. They
are known by a header from a proxy that has authenticated them, by a login (a cookie), or by a token of that role. No
other module decides who makes a request, and with ``login`` no other what they may see: users are refused every route
or page that does not declare its restriction to one user's data, so new ones are closed.

A route has its handler, roles, parameters and answer. The application, the access check, the check of parameters and
``openapi.json`` are all generated from these records.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from flask import Flask, Response, current_app, g, request
from sqlalchemy import Connection, Engine
from werkzeug.exceptions import BadRequest, Forbidden, NotFound

from jobsight_server.auth.client_address import TrustedProxies
from jobsight_server.auth.munge import MungeUsers
from jobsight_server.auth.sessions import LoginFailures, session_owner
from jobsight_server.auth.tokens import AuthError, TokenCache
from jobsight_server.decision.lately import Lately
from jobsight_server.forecasts import AnswerReader
from jobsight_server.front.wsgi import READING
from jobsight_server.ground.answers import Record
from jobsight_server.ground.listing import Listing
from jobsight_server.ground.parameters import Parameter
from jobsight_server.queries.job_named import owners
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.clusters import KnownClusters
from jobsight_server.web.kit.converters import IdConverter, NameConverter


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
    lately: Lately


def context() -> AppContext:
    """Return the context of the application that handles the current request."""
    found = current_app.extensions["jobsight"]
    assert isinstance(found, AppContext)
    return found


def reading() -> Connection:
    """Return the request's connection for reading: SQLite's answers are as of its first use. A request that reads,
    writes and reads again needs another one."""
    if "reading" not in g:
        g.reading = context().read_engine.connect().execution_options(reading=True)
    found = g.reading
    assert isinstance(found, Connection)
    return found


def end_reading(_: BaseException | None = None) -> None:
    """Close the request's connection; for ``teardown_appcontext`` of the application."""
    if (connection := g.pop("reading", None)) is not None:
        connection.close()


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
        return response if request.blueprint == "login" else _compressed(response)
    response.direct_passthrough = False
    response.make_sequence()  # a script or a style, of 50 kB at most
    response.close()  # its file
    return _compressed(response)


def _compressed(response: Response) -> Response:
    """Return the answer, as gzip if the client accepts it and it saves enough.

    Not for the login, whose form holds a secret: its size would reveal it beside text of the request (BREACH). Other
    pages hold none: changes are accepted by their origin and a cookie that browsers send from this site only.
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
``name`` a job of theirs. ``anyone``: the answer has no data of users."""

_PEOPLE: Mapping[str, PersonRole] = {"user": "user", "staff": "staff", "admin": "admin"}
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
    reads = request.method in READING
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


def require_own(who: Viewer, own: Own) -> None:
    """Reject a user's request for other data than theirs.

    Raises:
        AuthError: it is not restricted to this user.
        NotFound: it names a job that is not only this user's, as if there were none.
    """
    if own == "anyone":
        return
    given = set(request.args.getlist("user" if own == "user" else "name"))
    if own == "job":
        clusters = set(request.args.getlist("cluster"))
        cluster = clusters.pop() if len(clusters) == 1 else None
        for name in given:
            if owners(reading(), name, cluster) != {who.name}:
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
        Forbidden: the header was sent twice, or is not a name.
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
    owner = session_owner(reading(), secret, context().clock())
    if owner is None:
        return None
    if owner.role is not None:  # that of the token, revoked with it
        return Viewer(_PEOPLE[owner.role], owner.user)
    return Viewer("admin" if owner.user is None else _role_of(owner.user), owner.user)


def _role_of(name: str) -> PersonRole:
    settings = context().settings.access
    return "admin" if name in settings.admins else "staff" if name in settings.staff else "user"


def not_found(noun: str, name: str, cluster: str | None) -> NotFound:
    """Return the error for a name that the cluster, or with None every cluster, lacks."""
    return NotFound(f"no {noun} {name[:60]!r} in {'any cluster' if cluster is None else repr(cluster[:60])}")


_encode = msgspec.json.Encoder().encode


class Error(Record):
    """An error: the value, its place, and what to do."""

    error: str


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method. ``roles`` of programs' tokens; None: open; an empty tuple: administrators only.

    Staff may read it with any ``roles``; users only if ``own`` gives its restriction to their own data.

    The answer to a ``listing`` is a page of it, with its parameters. ``page``: its page for people: address, endpoint
    and template have this name; ``shown``: what the template needs beside the answer.

    The answer has the return type of ``handler``, or is ``answer`` if the handler writes the response itself.
    ``errors``: the statuses of errors beside those that every route of its kind has.
    """

    path: str
    handler: Callable[[], Record | Response]
    summary: str
    parameters: tuple[Parameter, ...] = ()
    listing: Listing | None = None
    method: str = "GET"
    roles: tuple[str, ...] | None = ("scheduler",)
    answer: Any = None
    body: Any = None
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()
    checks_roles_itself: bool = False
    own: Own | None = None
    page: str | None = None
    shown: Callable[[Any], Mapping[str, Any]] = lambda _: {}

    @property
    def endpoint(self) -> str:
        return f"{self.method} {self.path}".replace(".", "_")

    @property
    def takes(self) -> tuple[Parameter, ...]:
        """Return all of its query parameters."""
        return self.parameters if self.listing is None else (*self.parameters, *self.listing.parameters)

    @property
    def rule(self) -> str:
        """Return the path in Werkzeug's syntax."""
        return re.sub(r"\{(\w+)\}", lambda found: f"<{'id' if found[1] == 'id' else 'name'}:{found[1]}>", self.path)

    @property
    def has_tag(self) -> bool:
        """Return whether the answer has an ETag, so that an unchanged one is not sent again."""
        return self.method == "GET" and self.answer is None

    @property
    def statuses(self) -> list[int]:
        """Return the statuses of its errors."""
        of_names = (404,) if self.takes or self.body is not None or "{" in self.path else ()
        of_bodies = (413, 415) if self.body is not None else ()
        of_access = (401, 403, 503) if self.roles is not None else ()
        return sorted({400, *of_names, *of_bodies, *of_access, *self.errors})

    def refuse_unknown(self, others: Iterable[str] = ()) -> None:
        """Refuse the present request if it has more than these and ``others`` as parameters, or one twice."""
        known = sorted({*others, *(parameter.name for parameter in self.takes)})
        for name, values in request.args.lists():
            if name not in known:
                takes = ", ".join(known) or "none"
                raise BadRequest(f"query parameter {name[:100]!r} is unknown; {request.path} takes: {takes}")
            if len(values) > 1:
                raise BadRequest(f"query parameter {name!r} was given {len(values)} times; give it once")

    @property
    def answer_type(self) -> Any:
        return self.answer or get_type_hints(self.handler)["return"]


def register(app: Flask, routes: Iterable[Route]) -> None:
    """Serve ``routes``, each after the check of its roles and parameters."""
    app.url_map.converters |= {"name": NameConverter, "id": IdConverter}
    for route in routes:
        if route.body is not None:
            # Here, before any thread: two that meet a type first at the same time crash msgspec.
            msgspec.json.Decoder(route.body)
        app.add_url_rule(route.rule, route.endpoint, _guarded(route), methods=[route.method], merge_slashes=False)


def record_reply(record: msgspec.Struct, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a record as JSON; NaN, which JSON lacks, becomes null."""
    return json_text(_encode(record), status, headers)


def json_text(body: bytes | str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer from JSON text."""
    return Response(body, status, headers, content_type="application/json")


def error_reply(message: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON of an error, as everywhere under /api."""
    return record_reply(Error(message), status, headers)


def _require_utf8() -> None:
    """Refuse names that are not UTF-8: they would be read as other names."""
    sent = request.environ.get("QUERY_STRING", "").encode("latin-1"), request.environ["PATH_INFO"].encode("latin-1")
    for place, text in zip(("query", "path"), (unquote_to_bytes(sent[0]), sent[1]), strict=True):
        try:
            text.decode()
        except UnicodeDecodeError as error:
            where = text[max(0, error.start - 10) : error.end]
            raise BadRequest(f"the {place} is not UTF-8 text, at {where!r}; percent-encode names as UTF-8") from error


def _guarded(route: Route) -> Callable[..., Response]:
    def view(**_names: str) -> Response:
        if route.roles is not None and not route.checks_roles_itself:
            require_role(route.roles, route.own)
        _require_utf8()
        route.refuse_unknown()
        found = route.handler()
        if not isinstance(found, Record):
            return found
        response = record_reply(found)
        if route.has_tag:
            response.add_etag()
            response.make_conditional(request)
        return response

    return view
