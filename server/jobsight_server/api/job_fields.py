"""What a question may say about a job, as query parameters and in bodies."""

from __future__ import annotations

from typing import Any

import msgspec
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_server.amounts import MEMORY_PATTERN, TIME_PATTERN, memory_bytes, time_s
from jobsight_server.api.inputs import (
    amount_argument,
    amount_of,
    choice_argument,
    cluster_name,
    integer_argument,
    name_argument,
    name_text,
    number_of,
)
from jobsight_server.api.routes import NAME, Parameter
from jobsight_server.forecasts import Question
from jobsight_server.forecasts.per import PER, UnknownProcessorsError, processors_of

PROCESSORS_AT_MOST = 10**9
MEMORY_AT_MOST_BYTES = 1e18
WALLTIME_AT_MOST_S = 1e11
RESERVED_AT_MOST = 1e18

METRIC_CHOICES = ", ".join(METRICS)

_COUNT = {"type": "integer", "minimum": 1, "maximum": PROCESSORS_AT_MOST}


def _amount(largest: float, pattern: str) -> dict[str, Any]:
    number = {"type": "number", "exclusiveMinimum": 0, "maximum": largest}
    return {"anyOf": [number, {"type": "string", "pattern": pattern}]}


FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "application": ("the job's name, or what it runs; the number of a run at its end does not matter", NAME),
    "queue": ("the queue that it is submitted to", NAME),
    "processors": ("how many it asks for", _COUNT),
    "memory_bytes": (
        "the memory that the whole job asks for: bytes, or with a unit such as 4gb or 4G (powers of 1024)",
        _amount(MEMORY_AT_MOST_BYTES, MEMORY_PATTERN),
    ),
    "walltime_s": (
        "the time that it asks for: seconds, or a time such as 01:00:00 or 2-12:00:00",
        _amount(WALLTIME_AT_MOST_S, TIME_PATTERN),
    ),
    "per": (
        "values of the answer: per processor (default) or for the whole job, which needs processors",
        {"type": "string", "enum": list(PER)},
    ),
}
"""Name, meaning and JSON Schema of each; all are optional."""

PARAMETERS = tuple(Parameter(name, meaning, schema) for name, (meaning, schema) in FIELDS.items())


class JobFields(msgspec.Struct, kw_only=True):
    """A job in a body."""

    cluster: str
    user: str
    application: str | None = None
    queue: str | None = None
    processors: float | None = None  # JSON has no integers: 4.0 is 4
    memory_bytes: float | str | None = None
    walltime_s: float | str | None = None
    per: str | None = None


def question_of(asked: JobFields, metric: str | None, place: str) -> Question:
    """The question in a body, at ``place`` there.

    Raises:
        BadRequest: naming value, place and what to do.
        NotFound: there is no such cluster.
    """
    if metric is not None and metric not in METRICS:
        raise BadRequest(f"{place}metric = {metric[:60]!r} is unknown; use one of: {METRIC_CHOICES}")
    processors = None if asked.processors is None else _whole(asked.processors, f"{place}processors")
    if asked.per is not None and asked.per not in PER:
        raise BadRequest(f"{place}per = {asked.per[:60]!r} is unknown; use one of: {', '.join(PER)}")
    memory, walltime = asked.memory_bytes, asked.walltime_s
    return _complete(
        Question(
            cluster_name(asked.cluster, f"{place}cluster"),
            name_text(asked.user, f"{place}user"),
            metric,
            None if asked.application is None else name_text(asked.application, f"{place}application"),
            None if asked.queue is None else name_text(asked.queue, f"{place}queue"),
            processors,
            None if memory is None else amount_of(memory, f"{place}memory_bytes", memory_bytes, MEMORY_AT_MOST_BYTES),
            None if walltime is None else amount_of(walltime, f"{place}walltime_s", time_s, WALLTIME_AT_MOST_S),
            asked.per or PER[0],
        ),
        place,
    )


def _whole(value: float, place: str) -> int:
    if not value.is_integer():
        raise BadRequest(f"{place} = {value!r} is not a whole number")
    return int(number_of(int(value), place, PROCESSORS_AT_MOST))


def question_in_query(cluster: str, user: str, metric: str | None) -> Question:
    """The question in the query parameters.

    Raises:
        BadRequest: naming value, parameter and what to do.
    """
    return _complete(
        Question(
            cluster,
            user,
            metric,
            application=name_argument("application"),
            queue=name_argument("queue"),
            processors=integer_argument("processors", 0, PROCESSORS_AT_MOST) or None,
            memory_bytes=amount_argument("memory_bytes", memory_bytes, MEMORY_AT_MOST_BYTES),
            walltime_s=amount_argument("walltime_s", time_s, WALLTIME_AT_MOST_S),
            per=choice_argument("per", PER) or PER[0],
        ),
        "",
    )


def _complete(question: Question, place: str) -> Question:
    try:
        if question.per == "job":
            processors_of(question.processors, METRICS if question.metric is None else (question.metric,))
    except UnknownProcessorsError as error:
        raise BadRequest(f"{place}per = 'job': {error}") from error
    return question
