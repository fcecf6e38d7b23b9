"""Memory requirements: how much a job should ask for, the outcome, and the groups used for learning."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from flask import Blueprint, Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest, Conflict, Gone, NotFound
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.amounts import MEMORY_PATTERN, memory_bytes
from jobsight_server.queries.nodes import cluster_names
from jobsight_server.queries.requirements import RequirementGroups, requirement_group_list
from jobsight_server.record import Record
from jobsight_server.requirements import Feedback, Requirement, SubmittedJob, ask, take_feedback
from jobsight_server.storage.dialect import LARGEST_ID
from jobsight_server.web.context import context
from jobsight_server.web.inputs import PAGES_AT_MOST, amount_of, cluster_argument, given, integer_argument, parsed_body
from jobsight_server.web.pages import page
from jobsight_server.web.questions import MEMORY_AT_MOST_BYTES, DescribedJob, job_in_body
from jobsight_server.web.routes import NAME, PAGE, Parameter, Route, record_reply

Bytes = (
    Annotated[float, Meta(extra_json_schema={"minimum": 1, "maximum": MEMORY_AT_MOST_BYTES})]
    | Annotated[str, Meta(extra_json_schema={"pattern": MEMORY_PATTERN})]
)
Number = Annotated[float, Meta(extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": LARGEST_ID})]


class RequirementQuestion(DescribedJob, kw_only=True):
    """A submitted job.

    ``memory_bytes`` is what it requests, in the measure in which the scheduler enforces it: of a node, where
    ``memory_capacities`` is set. ``retry_of`` is the id of the answer for its last attempt, which failed.
    """

    memory_bytes: Bytes
    retry_of: Number | None = None


class JobFeedback(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How the job of an answer ended: ``failed`` means that its memory was too little; and what it used, if known."""

    id: Number
    outcome: Annotated[str, Meta(extra_json_schema={"enum": ["finished", "failed"]})]
    used_bytes: Bytes | None = None


class FeedbackTaken(Record):
    """``duplicate``: the same was reported before; it counts once."""

    id: int
    status: Literal["stored", "duplicate"]


def ask_requirement() -> Response:
    here = context()
    shape = '{"cluster": C, "user": U, "memory_bytes": REQUESTED}, and whatever else is known about the job'
    question = parsed_body(RequirementQuestion, shape)
    cluster, job = job_in_body(question, "")
    requested = _whole_bytes(question.memory_bytes, "memory_bytes")
    retry_of = None if question.retry_of is None else _number(question.retry_of, "retry_of")
    with here.write_engine.begin() as connection:
        submitted = SubmittedJob(cluster, job, requested, retry_of)
        return record_reply(ask(connection, here.requirements, submitted, here.clock()))


def report_feedback() -> Response:
    here = context()
    sent = parsed_body(JobFeedback, '{"id": ID, "outcome": "finished" or "failed"}, and used_bytes')
    if sent.outcome not in ("finished", "failed"):
        raise BadRequest(f"outcome = {sent.outcome[:60]!r} is unknown; use one of: finished, failed")
    number = _number(sent.id, "id")
    used = None if sent.used_bytes is None else _whole_bytes(sent.used_bytes, "used_bytes")
    with here.write_engine.begin() as connection:
        feedback = Feedback(number, sent.outcome == "failed", used)
        taken = take_feedback(connection, here.requirements, feedback, here.clock())
    if taken == "unknown":
        raise NotFound(f"id = {number}: unknown requirement; give the id from the answer")
    if taken == "expired":
        raise Gone(f"id = {number}: this requirement has expired; feedback on it is no longer accepted")
    if taken == "contradictory":
        raise Conflict(f"id = {number}: a different outcome was reported for this job before, and that one counts")
    return record_reply(FeedbackTaken(number, taken))


def requirement_groups() -> RequirementGroups:
    cluster, number = cluster_argument(), integer_argument("page", 1, PAGES_AT_MOST)
    here = context()
    with here.read_engine.connect() as connection:
        return requirement_group_list(connection, here.requirements, cluster, number)


def _number(value: float, place: str) -> int:
    if value < 1 or not value.is_integer():
        raise BadRequest(f"{place} = {value!r} is not the id of an answer; give a whole number from 1")
    return int(value)


def _whole_bytes(value: float | str, place: str) -> int:
    amount = amount_of(value, place, memory_bytes, MEMORY_AT_MOST_BYTES)
    if amount < 1.0:
        raise BadRequest(f"{place} = {value!r} is less than a byte; give bytes, or a unit such as 4gb")
    return int(amount)


REQUIREMENTS = Route(
    "GET",
    "/api/v1/requirements",
    requirement_groups,
    ("scheduler",),
    "Groups of jobs: requested, used and current memory, and the memory freed; 50 a page",
    (
        Parameter("cluster", "only this cluster's groups", NAME),
        Parameter("page", "from 1", PAGE),
    ),
    errors=(400, 404),
)
ROUTES = (
    REQUIREMENTS,
    Route(
        "POST",
        "/api/v1/requirements",
        ask_requirement,
        ("scheduler",),
        "How much memory a submitted job should ask for, at most its request; feedback refers to the id",
        answer=Requirement,
        body=RequirementQuestion,
        errors=(400, 404, 409, 410, 413, 415, 503),
    ),
    Route(
        "POST",
        "/api/v1/feedback",
        report_feedback,
        ("scheduler",),
        "The outcome of a job with a requirement; sent twice, it counts once",
        answer=FeedbackTaken,
        body=JobFeedback,
        errors=(400, 404, 409, 410, 413, 415, 503),
    ),
)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/requirements", endpoint="requirements")
    def show() -> AnyResponse:
        found = requirement_groups()
        here = context()
        with here.read_engine.connect() as connection:
            clusters = cluster_names(connection)
        return page(
            "requirements.html",
            found,
            REQUIREMENTS,
            cluster=given("cluster"),
            clusters=clusters,
            listen=here.settings.listen,
        )
