"""``/api/v1/openapi.json``, generated from the tables of served routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import cleandoc
from typing import Any

import msgspec
from flask import Response, current_app

from jobsight_server.ground.parameters import NAME
from jobsight_server.web.health import Ready
from jobsight_server.web.kit.converters import ID
from jobsight_server.web.kit.routes import Error, Route, json_text

API_VERSION = "1"

_HEADERS = {
    401: ("WWW-Authenticate", "how to send a token"),
    429: ("Retry-After", "seconds to wait"),
    503: ("Retry-After", "seconds to wait"),
}
_MEANINGS = {
    400: "Bad request; the error names the value, the place and what to do",
    401: "No token, or one that is unknown or revoked",
    403: "The token's role does not allow this",
    404: "Not found",
    409: "Conflicts with what is stored; the error says how",
    410: "It existed, but is no longer kept",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "The batch can never be stored; it is kept in quarantine",
    429: "Too many requests; try again later",
    503: "A part of the server that this request needs does not answer; try again",
}


def show_openapi() -> Response:
    kept = current_app.extensions
    if "jobsight_openapi" not in kept:
        kept["jobsight_openapi"] = msgspec.json.encode(openapi(kept["jobsight_routes"]))
    return json_text(kept["jobsight_openapi"])


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of ``routes``; the types of their answers generate its components."""
    routes = tuple(routes)
    types = [kind for route in routes for kind in (route.answer_type, route.body) if kind is not None]
    shapes, components = msgspec.json.schema_components((*types, Error), ref_template="#/components/schemas/{name}")
    schemas = dict(zip((*types, Error), shapes, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Jobsight",
            "version": API_VERSION,
            "summary": "The need of a user's next job, and the basis of the forecast",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {name: _described(_plain(schema)) for name, schema in components.items()},
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token created by `jobsight token create`; one of role admin may do everything",
                }
            },
        },
    }


def _plain(schema: Any) -> Any:
    """Return a schema without ``prefixItems``, which generators of clients do not read: a tuple is an array of its
    length, and every array says what its items are."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _plain(each) for name, each in schema.items()}
    if prefix := found.pop("prefixItems", None):
        found["items"] = prefix[0] if all(each == prefix[0] for each in prefix) else {"anyOf": prefix}
    return {"items": {}, **found} if found.get("type") == "array" else found


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a component; its description is the docstring of its type, converted to Markdown."""
    text = cleandoc(schema.get("description", "")).replace("``", "`")
    return schema | ({"description": text} if text else {})


def _operation(route: Route, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    answer = schemas[route.answer_type]
    answers: dict[str, Any] = {"200": _response("Answered", answer, route.media_type)}
    if route.has_tag:
        answers["200"]["headers"] = _header("ETag", "of the answer; send it back as If-None-Match")
        answers["304"] = {"description": "The answer has not changed since this ETag"}
    for status in route.statuses:
        schema = answer if (route.answer, status) == (Ready, 503) else schemas[Error]
        answers[str(status)] = _response(_MEANINGS[status], schema, "application/json")
        if status in _HEADERS:
            answers[str(status)]["headers"] = _header(*_HEADERS[status])
    roles = "open" if route.roles is None else "role " + " or ".join((*route.roles, "admin"))
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_')}".translate(_NOT_IN_IDS),
        "summary": route.summary,
        "description": f"Access: {roles}.",
        "security": [{"token": []}] if route.roles is not None else [],
        "parameters": _parameters(route),
        "responses": answers,
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[route.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _header(name: str, meaning: str) -> dict[str, Any]:
    return {name: {"description": meaning, "required": True, "schema": {"type": "string"}}}


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_query = [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.description,
            "schema": parameter.schema,
        }
        for parameter in route.takes
    ]
    in_path = [
        {"name": name, "in": "path", "required": True, "description": text, "schema": schema}
        for name, text, schema in (
            ("name", "any characters, percent-encoded; slashes may stay as they are", NAME),
            ("id", "its number", ID),
        )
        if f"{{{name}}}" in route.path
    ]
    return [*in_path, *in_query]


def _response(description: str, schema: dict[str, Any], media_type: str) -> dict[str, Any]:
    return {"description": description, "content": {media_type: {"schema": schema}}}


_NOT_IN_IDS = str.maketrans({"{": "", "}": "", ".": "_", "-": "_"})

ROUTES = (
    Route(
        "/api/v1/openapi.json",
        show_openapi,
        "This description",
        roles=("agent", "scheduler", "submitter"),
        answer=dict[str, Any],
        own="anyone",
    ),
)
