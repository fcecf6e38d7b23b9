"""Memory requirements: how much a job should ask for, the outcome, and the groups used for learning."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response as AnyResponse

from jobsight_server.amounts import MEMORY_PATTERN, memory_bytes
from jobsight_server.front.addresses import tcp_address
from jobsight_server.queries.nodes import cluster_names
from jobsight_server.queries.requirements import RequirementGroups, requirement_group_list
from jobsight_server.requirements import Requirement, RequirementConfig, SubmittedJob, ask
from jobsight_server.storage.engine import LARGEST_ID
from jobsight_server.web.kit.context import context, part
from jobsight_server.web.kit.inputs import (
    PAGES_AT_MOST,
    amount_of,
    cluster_argument,
    given,
    integer_argument,
    parsed_body,
)
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.questions import MEMORY_AT_MOST_BYTES, DescribedJob, job_in_body
from jobsight_server.web.kit.routes import NAME, PAGE, Parameter, Route, record_reply

Bytes = (
    Annotated[float, Meta(extra_json_schema={"minimum": 1, "maximum": MEMORY_AT_MOST_BYTES})]
    | Annotated[str, Meta(extra_json_schema={"pattern": MEMORY_PATTERN})]
)
Number = Annotated[float, Meta(extra_json_schema={"multipleOf": 1, "minimum": 1, "maximum": LARGEST_ID})]


class RequirementQuestion(DescribedJob, kw_only=True):
    """A submitted job.

    ``memory_bytes`` is what it requests, as a whole. ``retry_of`` is the id of the answer for its last attempt, which
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
        return record_reply(ask(connection, part(RequirementConfig), here.answers, submitted, here.clock()))


def requirement_groups() -> RequirementGroups:
    cluster, number = cluster_argument(), integer_argument("page", 1, PAGES_AT_MOST)
    here = context()
    with here.read_engine.connect() as connection:
        return requirement_group_list(connection, part(RequirementConfig), here.answers, cluster, number)


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
        "How much memory a submitted job should ask for, at most its request; report its outcome with the answer's id",
        answer=Requirement,
        body=RequirementQuestion,
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
            listen=tcp_address(here.settings.listen) or "localhost",
        )
