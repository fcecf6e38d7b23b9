"""Reports of a job's need, or of a kill for exceeding it."""

from __future__ import annotations

from typing import Annotated, Literal

from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_server.accounting.parsers.quantities import LONGEST_INDEXED
from jobsight_server.advice.recommendation import predictions
from jobsight_server.forecasts import Prediction
from jobsight_server.forecasts.events import Observation
from jobsight_server.forecasts.rounds import report
from jobsight_server.ground.amounts import memory_bytes, time_s
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.ground.errors import UserError
from jobsight_server.ground.parameters import NAME
from jobsight_server.web.kit.inputs import (
    METRIC_CHOICES,
    RESERVED_AT_MOST,
    JobFields,
    amount_of,
    name_text,
    parsed_body,
    request_of,
)
from jobsight_server.web.kit.routes import Route, context, record_reply

Amount = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": RESERVED_AT_MOST})]
    | Annotated[str, Meta(description="memory such as 4gb, a run time such as 01:00:00")]
)
JobId = Annotated[
    str,
    Meta(description="the job's id as in the accounting log", extra_json_schema={**NAME, "maxLength": LONGEST_INDEXED}),
]
_READ = {"memory": memory_bytes, "runtime": time_s}
_SHAPE = '{"cluster": C, "user": U, "metric": M, "value": NUMBER}, and anything else known about the job'


class JobOutcome(JobFields, kw_only=True):
    """The job as in a question, and its need of ``metric``: ``value``, in the unit of the answer.

    ``lower_bound``: it was killed for needing more. ``job_id``: it counts once, in this report or in the accounting
    log.
    """

    metric: Metric = "memory"
    value: Amount
    lower_bound: bool = False
    job_id: JobId | None = None


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
    value = amount_of(sent.value, "value", read, RESERVED_AT_MOST)
    job_id = None if sent.job_id is None else name_text(sent.job_id, "job_id")
    if job_id is not None and len(job_id) > LONGEST_INDEXED:
        raise BadRequest(f"job_id = {job_id[:60]!r} is longer than {LONGEST_INDEXED} characters; no log has such a job")
    observation = Observation(value, sent.lower_bound)
    try:
        with here.write_engine.begin() as connection:
            status = report(connection, here.answers, request, observation, job_id, here.clock())
            (answer,) = predictions(connection, here.answers, [request])
    except UserError as error:
        raise BadRequest(str(error)) from error
    return record_reply(OutcomeTaken(status, answer))


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text[:60]!r} is text; give a number in the unit of the metric")


ROUTES = (
    Route(
        "/api/v1/outcomes",
        take_outcome,
        "Reports a job's need, or that it was killed for needing more. The answer has the new prediction for "
        f"similar jobs; metric is one of {METRIC_CHOICES}, memory by default",
        method="POST",
        errors=(503,),
        answer=OutcomeTaken,
        body=JobOutcome,
    ),
)
