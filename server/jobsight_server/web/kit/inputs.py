"""Parses the input of a request; errors are answered 400 with the value, the place and what to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from flask import request
from werkzeug.exceptions import BadRequest, NotFound, RequestEntityTooLarge, UnsupportedMediaType

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.amounts import utc_span
from jobsight_server.storage.clusters import listed
from jobsight_server.web.kit.context import context

LATEST_TIME_S = 1e11
PAGES_AT_MOST = 10**6
ORDERS = ("asc", "desc")
_SHOWN = 60
SMALL_BODY_BYTES = 16 * 1024  # one job; stored values stay until long after it has ended
DEFINITION_BYTES = 256 * 1024

Body = TypeVar("Body")


def name_text(value: str, place: str) -> str:
    """Return a name from outside: any text that both databases can compare.

    Raises:
        BadRequest: empty, with a NUL character, or with half of a surrogate pair.
    """
    if not value:
        raise BadRequest(f"{place} is empty; give a name")
    if "\0" in value or (not value.isprintable() and _has_surrogate(value)):
        raise BadRequest(
            f"{place} = {value[:_SHOWN]!r} contains a character that no name can have (NUL or a lone surrogate)"
        )
    return value


def given(name: str) -> str | None:
    """Return the value of ``name`` in the path or the query; None if it was not given.

    Forms send all of their fields, so an empty one counts as not given on a page.
    """
    if request.view_args and name in request.view_args:
        return str(request.view_args[name])
    value = request.args.get(name)
    return None if value == "" and request.blueprint == "pages" else value


def name_argument(name: str) -> str | None:
    """Return argument ``name`` as a name; None if it was not given."""
    value = given(name)
    return None if value is None else name_text(value, _place(name))


def required_name(name: str) -> str:
    """Return argument ``name`` as a name.

    Raises:
        BadRequest: it was not given.
    """
    value = name_argument(name)
    if value is None:
        raise BadRequest(f"query parameter {name} is missing; add {name}=NAME")
    return value


def cluster_name(value: str, place: str) -> str:
    """Return ``value`` as a known cluster.

    Raises:
        BadRequest: it is not a valid name.
        NotFound: there is no such cluster; the message names the known ones.
    """
    known = context().clusters
    if name_text(value, place) not in known:
        raise NotFound(f"{place} = {value[:_SHOWN]!r}: unknown cluster; known: {listed(known.all())}")
    return value


def cluster_argument() -> str | None:
    """Return argument ``cluster``; None if it was not given."""
    value = given("cluster")
    return None if value is None else cluster_name(value, _place("cluster"))


def choice_argument(name: str, allowed: tuple[str, ...]) -> str | None:
    """Return argument ``name``, one of ``allowed``; None if it was not given."""
    value = given(name)
    if value is not None and value not in allowed:
        raise BadRequest(f"{name}={value[:_SHOWN]!r} is unknown; use one of: {', '.join(allowed)}")
    return value


def metric_argument() -> str | None:
    """Return argument ``metric``; None if it was not given."""
    return choice_argument("metric", tuple(METRICS))


def integer_argument(name: str, default: int, largest: int) -> int:
    """Return argument ``name``, a whole number from 1 to ``largest``."""
    value = given(name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit() and len(value) <= 12 and 1 <= int(value) <= largest):
        raise BadRequest(f"{name}={value[:_SHOWN]!r} is not a whole number from 1 to {largest}")
    return int(value)


def number_argument(name: str, schema: Mapping[str, Any]) -> float | None:
    """Return argument ``name``, a number within the bounds of its JSON Schema; None if it was not given."""
    value = given(name)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    least, is_whole = schema.get("exclusiveMinimum", schema.get("minimum")), schema["type"] == "integer"
    is_above = number > least if "exclusiveMinimum" in schema else number >= least
    if not (is_above and number <= schema["maximum"]) or (is_whole and not number.is_integer()):
        bounds = f"above {least:.12g}" if "exclusiveMinimum" in schema else f"from {least:.12g}"
        kind = "whole number" if is_whole else "number"
        raise BadRequest(f"{name}={value[:_SHOWN]!r} is not a {kind} {bounds} to {schema['maximum']:.12g}")
    return int(number) if is_whole else number


def time_argument(name: str, *, is_end: bool = False) -> float | None:
    """Return argument ``name``, a date, a time or UTC epoch seconds, as UTC epoch seconds; None if it was not given.

    Of a date, the begin of the day, or its end if ``is_end``.
    """
    value = given(name)
    try:
        return None if value is None else utc_span(value)[is_end]
    except ValueError as error:
        raise BadRequest(f"{name}={error}") from error


def number_of(value: float, place: str, largest: float) -> float:
    """Return a number above 0.

    Raises:
        BadRequest: it is not, or it is above ``largest``.
    """
    if not 0 < value <= largest:
        raise BadRequest(f"{place} = {value!r} is not above 0 and at most {largest:g}; leave it out if unknown")
    return value


def amount_of(value: float | str, place: str, read: Callable[[str], float], largest: float) -> float:
    """Return a number above 0, or a text that ``read`` converts to one.

    Raises:
        BadRequest: it is not, or it is above ``largest``.
    """
    try:
        number = read(value) if isinstance(value, str) else value
    except ValueError as error:
        raise BadRequest(f"{place} = {error}") from error
    return number_of(number, place, largest)


def amount_argument(name: str, read: Callable[[str], float], largest: float) -> float | None:
    """Return argument ``name``, a number above 0 in any form that ``read`` accepts; None if it was not given."""
    value = given(name)
    return None if value is None else amount_of(value, name, read, largest)


def json_body(limit: int) -> bytes:
    """Return the request's body, at most ``limit`` bytes of JSON."""
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"Content-Type is {request.mimetype[:60]!r}; send application/json")
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise RequestEntityTooLarge(f"the body has more than {limit} bytes; split it into several requests")
    return body


def parsed_body(kind: type[Body], shape: str, limit: int = SMALL_BODY_BYTES) -> Body:
    """Return the request's body, at most ``limit`` bytes, as a record of this kind; ``shape`` shows what to send.

    Raises:
        BadRequest: it is not one.
    """
    body = json_body(min(context().settings.max_body_bytes, limit))
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{error or 'nested too deep'}; send {shape}") from error


def one_cluster(found: list[str], noun: str) -> str | None:
    """Return the cluster to answer for: the one requested, else the only one of ``found``; None without one.

    Raises:
        BadRequest: several know it and none was requested.
        NotFound: the requested cluster does not exist.
    """
    asked = cluster_argument()
    if asked is not None:
        return asked
    if len(found) > 1:
        raise BadRequest(f"several clusters know this {noun} ({', '.join(found)}); add ?cluster=NAME")
    return found[0] if found else None


def _place(name: str) -> str:
    return f"{name} in the path" if request.view_args and name in request.view_args else f"query parameter {name}"


def _has_surrogate(value: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in value)
