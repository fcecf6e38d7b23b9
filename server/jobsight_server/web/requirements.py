"""Memory requirements: the recommended request of a submitted job."""

from __future__ import annotations

from typing import Annotated

from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_server.accounting.amounts import MEMORY_PATTERN, memory_bytes
from jobsight_server.advice.requirements import Requirement, SubmittedJob, ask
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import amount_of, parsed_body
from jobsight_server.web.kit.questions import MEMORY_AT_MOST_BYTES, DescribedJob, job_in_body
from jobsight_server.web.kit.routes import Route, record_reply

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


ROUTES = (
    Route(
        "POST",
        "/api/v1/requirements",
        ask_requirement,
        ("scheduler",),
        "Memory that a submitted job should request, at most its request; report its outcome with the answer's id",
        answer=Requirement,
        body=RequirementQuestion,
        errors=(400, 404, 409, 410, 413, 415, 503),
    ),
)
