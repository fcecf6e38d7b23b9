"""The memory that a submitted job should request, and reports of a job's need or of a kill for exceeding it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flask import Response
from msgspec import Meta
from sqlalchemy import Connection
from werkzeug.exceptions import BadRequest, Conflict, Gone, HTTPException, NotFound

from jobsight_server.accounting.parsers.quantities import LONGEST_INDEXED
from jobsight_server.advice.recommendation import predictions
from jobsight_server.advice.requirements import Feedback, Requirement, SubmittedJob, ask, take_feedback
from jobsight_server.forecasts import Prediction
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.request import ForecastRequest, question_of_text, whole_job_request
from jobsight_server.forecasts.rounds import report
from jobsight_server.ground.amounts import MEMORY_PATTERN, memory_bytes, time_s
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.ground.errors import UserError
from jobsight_server.ground.parameters import NAME
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.web.kit.inputs import (
    MEMORY_AT_MOST_BYTES,
    METRIC_CHOICES,
    RESERVED_AT_MOST,
    DescribedJob,
    JobFields,
    amount_of,
    job_in_body,
    name_text,
    parsed_body,
    request_of,
)
from jobsight_server.web.kit.routes import Route, context, record_reply

Bytes = (
    Annotated[float, Meta(extra_json_schema={"minimum": 1, "maximum": MEMORY_AT_MOST_BYTES})]
    | Annotated[str, Meta(extra_json_schema={"pattern": MEMORY_PATTERN})]
)
Number = Annotated[float, Meta(extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": LARGEST_ID})]


class RequirementQuestion(DescribedJob, kw_only=True):
    """A submitted job.

    ``memory_bytes`` is the request of the whole job. ``retry_of`` is the id of the answer for its last attempt, which
    failed.
    """

    memory_bytes: Bytes
    retry_of: Number | None = None


def ask_requirement() -> Response:
    here = context()
    shape = '{"cluster": C, "user": U, "memory_bytes": REQUESTED}, and anything else known about the job'
    question = parsed_body(RequirementQuestion, shape)
    cluster, job = job_in_body(question, "")
    requested = _whole_bytes(question.memory_bytes, "memory_bytes")
    retry_of = None if question.retry_of is None else _number(question.retry_of, "retry_of")
    with here.write_engine.begin() as connection:
        submitted = SubmittedJob(cluster, job, requested, retry_of)
        return record_reply(ask(connection, here.answers, submitted))


def _number(value: float, place: str) -> int:
    if value < 1 or not value.is_integer():
        raise BadRequest(f"{place} = {value!r} is not the id of an answer; give a whole number from 1")
    return int(value)


def _whole_bytes(value: float | str, place: str) -> int:
    amount = amount_of(value, place, memory_bytes, MEMORY_AT_MOST_BYTES)
    if amount < 1.0:
        raise BadRequest(f"{place} = {value!r} is less than a byte; give bytes, or a unit such as 4gb")
    return int(amount)


Amount = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": RESERVED_AT_MOST})]
    | Annotated[str, Meta(description="memory such as 4gb, a run time such as 01:00:00")]
)
JobId = Annotated[
    str,
    Meta(description="the job's id as in the accounting log", extra_json_schema={**NAME, "maxLength": LONGEST_INDEXED}),
]
RequirementId = Annotated[
    float,
    Meta(
        description="the id of the answer of /api/v1/requirements for this job; the report is about its memory",
        extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": LARGEST_ID},
    ),
]

_REFUSED: dict[str, tuple[type[HTTPException], str]] = {
    "unknown": (NotFound, "unknown; give the id from the answer of /api/v1/requirements"),
    "expired": (Gone, "it has expired; its outcome is no longer accepted"),
    "contradictory": (Conflict, "another outcome was reported before, and that one counts"),
}
_READ = {"memory": memory_bytes, "runtime": time_s}
_SHAPE = '{"cluster": C, "user": U, "metric": M, "value": NUMBER}, and anything else known about the job'


class JobOutcome(JobFields, kw_only=True):
    """The job as in a question, and its need of ``metric``: ``value``, in the unit of the answer.

    ``lower_bound``: it was killed for needing more. ``job_id``: it counts once, in this report or in the accounting
    log. With ``requirement``, the job is known from there, ``metric`` is memory of the whole job, and ``value`` may be
    left out: it had enough, or with ``lower_bound`` too little.
    """

    metric: Metric = "memory"
    value: Amount | None = None
    lower_bound: bool = False
    job_id: JobId | None = None
    requirement: RequirementId | None = None


class OutcomeTaken(Record):
    """``duplicate``: already known from a report or the log; it counts once. ``prediction``: the new reservation for
    similar jobs."""

    status: Literal["stored", "duplicate"]
    prediction: Prediction | None


def take_outcome() -> Response:
    """Learn from the outcome and return the new prediction for similar jobs."""
    here = context()
    sent = parsed_body(JobOutcome, _SHAPE)
    request = request_of(sent, sent.metric, "")
    read = _READ.get(sent.metric, _not_a_number)
    value = None if sent.value is None else amount_of(sent.value, "value", read, RESERVED_AT_MOST)
    job_id = None if sent.job_id is None else name_text(sent.job_id, "job_id")
    if job_id is not None and len(job_id) > LONGEST_INDEXED:
        raise BadRequest(f"job_id = {job_id[:60]!r} is longer than {LONGEST_INDEXED} characters; no log has such a job")
    if value is None and sent.requirement is None:
        raise BadRequest("value is missing; give the job's need, or with lower_bound a value that was too little")
    try:
        with here.write_engine.begin() as connection:
            status: Any = "stored"
            if sent.requirement is not None:
                status, request, value = _of_requirement(connection, sent, request, value)
            answer = None
            if status not in _REFUSED:
                if value is not None and status != "duplicate":
                    observation = Observation(value, sent.lower_bound)
                    status = report(connection, here.answers, request, observation, job_id, here.clock())
                (answer,) = predictions(connection, here.answers, [request])
    except UserError as error:
        raise BadRequest(str(error)) from error
    if status in _REFUSED:  # the refusal is counted, and the count committed
        kind, why = _REFUSED[status]
        raise kind(f"requirement = {sent.requirement:.0f}: {why}")
    return record_reply(OutcomeTaken(status, answer))


def _of_requirement(connection: Connection, sent: JobOutcome, request: ForecastRequest, value: float | None) -> Any:
    """Return (status, the whole job's request of the requirement, its need; None if it only had enough)."""
    if sent.metric != "memory":
        raise BadRequest(f"metric = {sent.metric!r}: a requirement is about memory")
    number = _number(sent.requirement or 0.0, "requirement")
    feedback = Feedback(number, sent.lower_bound, None if value is None else int(value))
    taken, row = take_feedback(connection, feedback)
    if row is not None and row.cluster != request.cluster:
        raise Conflict(f"requirement = {number} is of cluster {row.cluster!r}; name that")
    if row is None or taken in _REFUSED:
        return taken, request, value
    if sent.lower_bound:  # it was stopped at its allocation, even if an earlier reading was lower
        value = max(float(row.memory_bytes), value or 0.0)
    return taken, whole_job_request(row.cluster, question_of_text(row.question), "memory"), value


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text[:60]!r} is text; give a number in the unit of the metric")


ROUTES = (
    Route(
        "/api/v1/outcomes",
        take_outcome,
        "Reports a job's need, or that it was killed for needing more. The answer has the new prediction for "
        f"similar jobs; metric is one of {METRIC_CHOICES}, memory by default",
        method="POST",
        errors=(409, 410, 503),
        answer=OutcomeTaken,
        body=JobOutcome,
    ),
    Route(
        "/api/v1/requirements",
        ask_requirement,
        "Memory that a submitted job should request, at most its request; report its outcome with the answer's id",
        method="POST",
        errors=(409, 410, 503),
        answer=Requirement,
        body=RequirementQuestion,
    ),
)
