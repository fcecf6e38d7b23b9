"""Parses the input of a request, and the fields that describe a job in it, as query parameters and in bodies.

Errors are answered 400 with the value, the place and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import msgspec
from flask import request
from msgspec import Meta
from werkzeug.exceptions import BadRequest, NotFound, RequestEntityTooLarge, UnsupportedMediaType

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.forecasts import ForecastRequest
from jobsight_server.forecasts.request import PER, UnknownProcessorsError, job_question
from jobsight_server.ground.amounts import MEMORY_PATTERN, TIME_PATTERN, memory_bytes, time_s, utc_span
from jobsight_server.ground.facts import FACT_NAME, FACTS_AT_MOST
from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.storage.clusters import listed
from jobsight_server.storage.fields_once import check_fields_once
from jobsight_server.web.kit.routes import context, not_found

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
    if "\0" in value or (not value.isprintable() and any("\ud800" <= character <= "\udfff" for character in value)):
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


def value_argument(of: Parameter) -> Any:
    """Return the argument of a parameter as its schema has it: one of its values, a name, or a number."""
    if "enum" in of.schema:
        return choice_argument(of.name, tuple(of.schema["enum"]))
    return name_argument(of.name) if of.schema["type"] == "string" else number_argument(of.name, of.schema)


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


def parsed_body(kind: type[Body], shape: str, limit: int = SMALL_BODY_BYTES) -> Body:
    """Return the request's body, at most ``limit`` bytes, as a record of this kind; ``shape`` shows what to send.

    Raises:
        BadRequest: it is not one.
        UnsupportedMediaType: it is not JSON.
        RequestEntityTooLarge: it is longer.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"Content-Type is {request.mimetype[:60]!r}; send application/json")
    limit = min(context().settings.max_body_bytes, limit)
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise RequestEntityTooLarge(f"the body has more than {limit} bytes; split it into several requests")
    try:
        found = msgspec.json.decode(body, type=kind)
        check_fields_once(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{error or 'nested too deep'}; send {shape}") from error
    return found


def one_cluster(found: list[str], noun: str, name: str) -> str:
    """Return the cluster to answer for: the one requested, else the only one of ``found``, which know the name.

    Raises:
        BadRequest: several know it and none was requested.
        NotFound: none knows it, or the requested cluster does not exist.
    """
    if (asked := cluster_argument()) is not None:
        return asked
    if len(found) > 1:
        raise BadRequest(f"several clusters know this {noun} ({', '.join(found)}); add ?cluster=NAME")
    if not found:
        raise not_found(noun, name, None)
    return found[0]


def _place(name: str) -> str:
    return f"{name} in the path" if request.view_args and name in request.view_args else f"query parameter {name}"


PROCESSORS_AT_MOST = 10**9
MEMORY_AT_MOST_BYTES = 1e18
WALLTIME_AT_MOST_S = 1e11
RESERVED_AT_MOST = 1e18

METRIC_CHOICES = ", ".join(METRICS)


AskedName = Annotated[str, Meta(extra_json_schema=NAME)]
ApplicationName = Annotated[
    AskedName, Meta(description="the job's name, or what it runs; a run number at its end does not matter")
]
Queue = Annotated[AskedName, Meta(description="queue that the job is submitted to")]
UnixGroup = Annotated[AskedName, Meta(description="Unix group that the job runs as")]
Account = Annotated[AskedName, Meta(description="account that the job is charged to")]
Processors = Annotated[
    float,  # JSON has no integers: 4.0 is 4
    Meta(
        description="processors requested",
        extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": PROCESSORS_AT_MOST},
    ),
]
Memory = Annotated[
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": MEMORY_AT_MOST_BYTES})]
    | Annotated[str, Meta(extra_json_schema={"pattern": MEMORY_PATTERN})],
    Meta(description="memory requested for the whole job: bytes, or with a unit such as 4gb or 4G (powers of 1024)"),
]
Walltime = Annotated[
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": WALLTIME_AT_MOST_S})]
    | Annotated[str, Meta(extra_json_schema={"pattern": TIME_PATTERN})],
    Meta(description="run time requested: seconds, or a time such as 01:00:00 or 2-12:00:00"),
]
Per = Annotated[
    str,
    Meta(
        description="values of the answer: per processor (default) or for the whole job, which requires processors",
        extra_json_schema={"enum": list(PER)},
    ),
]


FactName = Annotated[str, Meta(pattern=f"^{FACT_NAME}$")]
Facts = Annotated[
    dict[FactName, float],
    Meta(max_length=FACTS_AT_MOST, description="numbers known about the job at submission, such as input_bytes"),
]


class JobProperties(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job's known fields. ``question_in_body`` checks their constraints, with messages that say what to do."""

    user: AskedName
    application: ApplicationName | None = None
    queue: Queue | None = None
    processors: Processors | None = None
    memory_bytes: Memory | None = None
    walltime_s: Walltime | None = None
    group: UnixGroup | None = None
    account: Account | None = None
    facts: Facts | None = None


GPUS_AT_MOST = 1_000_000
Gpus = Annotated[int, Meta(ge=0, le=GPUS_AT_MOST)]


class DescribedJob(JobProperties, kw_only=True):
    """A job in a body, with its cluster."""

    cluster: AskedName


class JobFields(DescribedJob, kw_only=True):
    """A job to forecast."""

    per: Per | None = None


def _parameter(name: str, field: Any) -> Parameter:
    schema = msgspec.json.schema(field)
    return Parameter(name, schema.pop("description"), schema | ({"type": "integer"} if name == "processors" else {}))


PARAMETERS = tuple(
    _parameter(name, get_args(field)[0])
    for name, field in get_type_hints(JobFields, include_extras=True).items()
    if type(None) in get_args(field) and name != "facts"
)
"""The same as query parameters, without cluster, user and facts."""


def request_of(asked: JobFields, metric: str | None, place: str) -> ForecastRequest:
    """Return the request in a body, at ``place`` there.

    Raises:
        BadRequest: naming value, place and what to do.
        NotFound: there is no such cluster.
    """
    if metric is not None and metric not in METRICS:
        raise BadRequest(f"{place}metric = {metric[:60]!r} is unknown; use one of: {METRIC_CHOICES}")
    if asked.per is not None and asked.per not in PER:
        raise BadRequest(f"{place}per = {asked.per[:60]!r} is unknown; use one of: {', '.join(PER)}")
    cluster, question = job_in_body(asked, place)
    return _complete(ForecastRequest(cluster, question, metric, asked.per or PER[0]), place)


def job_in_body(asked: DescribedJob, place: str) -> tuple[str, Question]:
    """Return the cluster and the job in a body, at ``place`` there.

    Raises:
        BadRequest: naming value, place and what to do.
        NotFound: there is no such cluster.
    """
    return cluster_name(asked.cluster, f"{place}cluster"), question_in_body(asked, place)


def question_in_body(asked: JobProperties, place: str) -> Question:
    """Return the job in a body, at ``place`` there.

    Raises:
        BadRequest: naming value, place and what to do.
    """
    memory, walltime = asked.memory_bytes, asked.walltime_s
    return job_question(
        name_text(asked.user, f"{place}user"),
        None if asked.application is None else name_text(asked.application, f"{place}application"),
        None if asked.queue is None else name_text(asked.queue, f"{place}queue"),
        None if asked.processors is None else _whole(asked.processors, f"{place}processors"),
        None if memory is None else amount_of(memory, f"{place}memory_bytes", memory_bytes, MEMORY_AT_MOST_BYTES),
        None if walltime is None else amount_of(walltime, f"{place}walltime_s", time_s, WALLTIME_AT_MOST_S),
        None if asked.group is None else name_text(asked.group, f"{place}group"),
        None if asked.account is None else name_text(asked.account, f"{place}account"),
        tuple(sorted((asked.facts or {}).items())),
    )


def _whole(value: float, place: str) -> int:
    if not value.is_integer():
        raise BadRequest(f"{place} = {value!r} is not a whole number")
    return int(number_of(int(value), place, PROCESSORS_AT_MOST))


def request_in_query(cluster: str | None, user: str, metric: str | None) -> ForecastRequest:
    """Return the request in the query parameters.

    Raises:
        BadRequest: naming value, parameter and what to do.
    """
    question = job_question(
        user,
        name_argument("application"),
        queue=name_argument("queue"),
        processors=integer_argument("processors", 0, PROCESSORS_AT_MOST) or None,
        memory_bytes=amount_argument("memory_bytes", memory_bytes, MEMORY_AT_MOST_BYTES),
        walltime_s=amount_argument("walltime_s", time_s, WALLTIME_AT_MOST_S),
        group=name_argument("group"),
        account=name_argument("account"),
    )
    return _complete(ForecastRequest(cluster, question, metric, choice_argument("per", PER) or PER[0]), "")


def _complete(request: ForecastRequest, place: str) -> ForecastRequest:
    try:
        _ = request.scale
    except UnknownProcessorsError as error:
        raise BadRequest(f"{place}per = 'job': {error}") from error
    return request
