"""What a question may tell of a job, as query parameters and in bodies."""

from __future__ import annotations

from typing import Any

import msgspec
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_server.api.inputs import (
    cluster_name,
    integer_argument,
    name_argument,
    name_text,
    number_argument,
    number_of,
)
from jobsight_server.api.routes import NAME, Parameter
from jobsight_server.forecasts import Question

PROCESSORS_AT_MOST = 10**9
MEMORY_AT_MOST_BYTES = 1e18
WALLTIME_AT_MOST_S = 1e11
RESERVED_AT_MOST = 1e18

METRIC_CHOICES = ", ".join(METRICS)

_COUNT = {"type": "integer", "minimum": 1, "maximum": PROCESSORS_AT_MOST}
_AMOUNT = {"type": "number", "exclusiveMinimum": 0}

FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "application": ("the job's name, or what it runs; the number of a run at its end does not matter", NAME),
    "queue": ("the queue that it is submitted to", NAME),
    "processors": ("how many it asks for", _COUNT),
    "memory_bytes": ("the memory that the whole job asks for", {**_AMOUNT, "maximum": MEMORY_AT_MOST_BYTES}),
    "walltime_s": ("the time that it asks for", {**_AMOUNT, "maximum": WALLTIME_AT_MOST_S}),
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
    memory_bytes: float | None = None
    walltime_s: float | None = None


def question_of(asked: JobFields, metric: str | None, place: str) -> Question:
    """The question in a body, at ``place`` there.

    Raises:
        BadRequest: naming value, place and what to do.
        NotFound: there is no such cluster.
    """
    if metric is not None and metric not in METRICS:
        raise BadRequest(f"{place}metric = {metric[:60]!r} is unknown; use one of: {METRIC_CHOICES}")
    processors = None if asked.processors is None else _whole(asked.processors, f"{place}processors")
    if asked.memory_bytes is not None:
        number_of(asked.memory_bytes, f"{place}memory_bytes", MEMORY_AT_MOST_BYTES)
    if asked.walltime_s is not None:
        number_of(asked.walltime_s, f"{place}walltime_s", WALLTIME_AT_MOST_S)
    return Question(
        cluster_name(asked.cluster, f"{place}cluster"),
        name_text(asked.user, f"{place}user"),
        metric,
        None if asked.application is None else name_text(asked.application, f"{place}application"),
        None if asked.queue is None else name_text(asked.queue, f"{place}queue"),
        processors,
        asked.memory_bytes,
        asked.walltime_s,
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
    return Question(
        cluster,
        user,
        metric,
        application=name_argument("application"),
        queue=name_argument("queue"),
        processors=integer_argument("processors", 0, PROCESSORS_AT_MOST) or None,
        memory_bytes=number_argument("memory_bytes", MEMORY_AT_MOST_BYTES),
        walltime_s=number_argument("walltime_s", WALLTIME_AT_MOST_S),
    )
