"""A route of the API: what serves it, who may ask, what it takes and answers.

The application, the access check, the check of parameters and ``openapi.json`` are all made from these records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest
from werkzeug.routing import BaseConverter

from jobsight_server.api.inputs import LATEST_TIME_S, PAGES_AT_MOST
from jobsight_server.auth.guard import require_role

NAME: dict[str, Any] = {"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}
TIME: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": LATEST_TIME_S}
PAGE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": PAGES_AT_MOST}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; ``schema`` is JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. ``roles`` None: open to everybody; an empty tuple: to admins only."""

    method: str
    path: str
    handler: Callable[..., Response]
    roles: tuple[str, ...] | None
    summary: str
    answer: str
    parameters: tuple[Parameter, ...] = ()
    body: str | None = None
    media_type: str = "application/json"
    errors: tuple[int, ...] = ()
    checks_roles_itself: bool = False

    @property
    def endpoint(self) -> str:
        return f"{self.method} {self.path}".replace(".", "_")

    @property
    def rule(self) -> str:
        """The path as Werkzeug writes it."""
        return re.sub(r"\{(\w+)\}", r"<name:\1>", self.path)


class NameConverter(BaseConverter):
    """Any text, slashes and line ends included: names of users, jobs and nodes come from outside."""

    regex = r"[\s\S]+?"
    part_isolating = False


def register(app: Flask, routes: Iterable[Route]) -> None:
    """Serves ``routes``, each behind its roles and the check of its parameters."""
    app.url_map.converters["name"] = NameConverter
    for route in routes:
        app.add_url_rule(route.rule, route.endpoint, _guarded(route), methods=[route.method], merge_slashes=False)


def _require_utf8() -> None:
    """Names that are no text would be read as other names."""
    sent = request.environ.get("QUERY_STRING", "").encode("latin-1"), request.environ["PATH_INFO"].encode("latin-1")
    for place, text in zip(("query", "path"), (unquote_to_bytes(sent[0]), sent[1]), strict=True):
        try:
            text.decode()
        except UnicodeDecodeError as error:
            where = text[max(0, error.start - 10) : error.end]
            raise BadRequest(f"the {place} is not UTF-8 text, at {where!r}; percent-encode names as UTF-8") from error


def _guarded(route: Route) -> Callable[..., Response]:
    known = {parameter.name for parameter in route.parameters}

    def view(**names: str) -> Response:
        if route.roles is not None and not route.checks_roles_itself:
            require_role(route.roles)
        _require_utf8()
        for name, values in request.args.lists():
            if name not in known:
                takes = ", ".join(sorted(known)) or "none"
                raise BadRequest(f"query parameter {name[:100]!r} is unknown; {route.path} takes: {takes}")
            if len(values) > 1:
                raise BadRequest(f"query parameter {name!r} was given {len(values)} times; give it once")
        return route.handler(**names)

    return view
