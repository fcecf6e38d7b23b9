"""A route of the API: its handler, roles, parameters and answer.

The application, the access check, the check of parameters and ``openapi.json`` are all generated from these records."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from flask import Flask, Request, Response, has_app_context, request
from werkzeug.exceptions import BadRequest
from werkzeug.routing import BaseConverter, IntegerConverter

from jobsight_server.forecasts.record import Record
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.web.kit.context import Own, known_viewer, require_role
from jobsight_server.web.kit.inputs import LATEST_TIME_S, PAGES_AT_MOST

COSTLY_S = 0.02
"""CPU time from which on an answer is kept."""

_TIMES = 150  # its cost: a page that asks every 3 s takes 20 ms each time in the mean, however much an answer costs
_LONGEST_S = 60.0
_BYTES_AT_MOST = 2**24  # of all


class Kept(NamedTuple):
    """An answer's JSON and its ETag; ``until``: by the clock."""

    body: bytes
    tag: str
    until: float


class KeptAnswers:
    """The last costly answers of a process, each for its reader only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, request: Request) -> Kept | None:
        """Return the kept answer for a request that already has one (If-None-Match); None for any other."""
        if not request.if_none_match:
            return None
        with self._lock:
            found = self._kept.get(_key(request))
        return found if found is not None and self._clock() < found.until else None

    def put(self, request: Request, body: bytes, tag: str, cost_s: float) -> None:
        """Keep an answer that took ``cost_s`` of CPU time, if that is much."""
        if cost_s < COSTLY_S or len(body) > _BYTES_AT_MOST:
            return
        until = self._clock() + min(_TIMES * cost_s, _LONGEST_S)
        key = _key(request)
        with self._lock:
            if (older := self._kept.pop(key, None)) is not None:
                self._bytes -= len(older.body)
            self._kept[key] = Kept(body, tag, until)
            self._bytes += len(body)
            while self._bytes > _BYTES_AT_MOST:
                self._bytes -= len(self._kept.popitem(last=False)[1].body)


def _key(request: Request) -> bytes:
    # Readers may see different data.
    who = repr(known_viewer()) if has_app_context() else ""  # a proxy names its users in a header of its own
    parts = (request.full_path, who, request.headers.get("Authorization", ""), request.headers.get("Cookie", ""))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()


NAME: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}
TIME: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": LATEST_TIME_S}
ID: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": LARGEST_ID}
PAGE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": PAGES_AT_MOST}

_encode = msgspec.json.Encoder().encode


class Error(Record):
    """An error: the value, its place, and what to do."""

    error: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; ``schema`` is JSON Schema, of an array if it may be given several times."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


ITS_NAME = Parameter("name", "its name", NAME, required=True)
"""The name of a user, a job or a node. No path can carry every name: browsers resolve ``..``, proxies merge ``//``."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method. ``roles`` of programs' tokens; None: open; an empty tuple: administrators only.

    Staff may read it with any ``roles``; users only if ``own`` gives its restriction to their own data.

    The answer has the return type of ``handler``, or is ``answer`` if the handler writes the response itself.
    ``errors``: the statuses of errors beside those that every route of its kind has.
    """

    path: str
    handler: Callable[[], Record | Response]
    summary: str
    parameters: tuple[Parameter, ...] = ()
    method: str = "GET"
    roles: tuple[str, ...] | None = ("scheduler",)
    answer: Any = None
    body: Any = None
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()
    checks_roles_itself: bool = False
    own: Own | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.method} {self.path}".replace(".", "_")

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
        of_names = (404,) if self.parameters or self.body is not None or "{" in self.path else ()
        of_bodies = (413, 415) if self.body is not None else ()
        of_access = (401, 403, 503) if self.roles is not None else ()
        return sorted({400, *of_names, *of_bodies, *of_access, *self.errors})

    @property
    def answer_type(self) -> Any:
        return self.answer or get_type_hints(self.handler)["return"]


class NameConverter(BaseConverter):
    """Any text, slashes and line ends included: names of users, jobs and nodes come from outside."""

    regex = r"[\s\S]+?"
    part_isolating = False


class IdConverter(IntegerConverter):
    """A row's number; one too large for the database is 0, which no row has.

    A converter that refused it would have Werkzeug answer 405 where the path has several methods.
    """

    def to_python(self, value: str) -> int:
        number = int(value) if len(value) <= len(str(LARGEST_ID)) else 0
        return number if number <= LARGEST_ID else 0


def register(app: Flask, routes: Iterable[Route]) -> None:
    """Serve ``routes``, each after the check of its roles and parameters."""
    app.url_map.converters |= {"name": NameConverter, "id": IdConverter}
    kept = KeptAnswers()
    for route in routes:
        app.add_url_rule(route.rule, route.endpoint, _guarded(route, kept), methods=[route.method], merge_slashes=False)


def choice_of(values: Sequence[str]) -> dict[str, Any]:
    """Return the schema of one of ``values``."""
    return {"type": "string", "enum": list(values)}


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


def _guarded(route: Route, answers: KeptAnswers) -> Callable[..., Response]:
    known = {parameter.name: parameter.schema.get("type") == "array" for parameter in route.parameters}

    def view(**_names: str) -> Response:
        if route.roles is not None and not route.checks_roles_itself:
            require_role(route.roles, route.own)
        _require_utf8()
        for name, values in request.args.lists():
            if name not in known:
                takes = ", ".join(sorted(known)) or "none"
                raise BadRequest(f"query parameter {name[:100]!r} is unknown; {route.path} takes: {takes}")
            if len(values) > 1 and not known[name]:
                raise BadRequest(f"query parameter {name!r} was given {len(values)} times; give it once")
        if route.has_tag and (kept := answers.get(request)) is not None:
            return _tagged(kept.body, kept.tag)
        begin_s = time.thread_time()
        found = route.handler()
        if not isinstance(found, Record):
            return found
        if not route.has_tag:
            return record_reply(found)
        body = _encode(found)
        tag = hashlib.sha256(body).hexdigest()[:32]
        answers.put(request, body, tag, time.thread_time() - begin_s)
        return _tagged(body, tag)

    return view


def _tagged(body: bytes, tag: str) -> Response:
    response = json_text(body)
    response.set_etag(tag)
    response.make_conditional(request)
    return response
