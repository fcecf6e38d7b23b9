"""The fields that describe a job in a question, as query parameters and in bodies."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_type_hints

import msgspec
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.accounting.amounts import MEMORY_PATTERN, TIME_PATTERN, memory_bytes, time_s
from jobsight_server.forecasts import ForecastRequest
from jobsight_server.forecasts.request import PER, UnknownProcessorsError, job_question
from jobsight_server.storage.facts import FACT_NAME, FACTS_AT_MOST
from jobsight_server.web.kit.inputs import (
    amount_argument,
    amount_of,
    choice_argument,
    cluster_name,
    integer_argument,
    name_argument,
    name_text,
    number_of,
)
from jobsight_server.web.kit.routes import NAME, Parameter

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
