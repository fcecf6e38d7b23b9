"""``/api/v1/predictions``: what a user's next job will need. ``/api/v1/failures``: which reservations ran out."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_server.accounting.parsers.pbs import LONGEST_INDEXED
from jobsight_server.amounts import memory_bytes, time_s
from jobsight_server.errors import UserError
from jobsight_server.forecasts import ForecastRequest, Prediction, record_failure
from jobsight_server.forecasts.prediction import Predictions
from jobsight_server.record import Metric
from jobsight_server.web.context import context
from jobsight_server.web.inputs import (
    amount_of,
    cluster_argument,
    metric_argument,
    name_argument,
    name_text,
    parsed_body,
)
from jobsight_server.web.questions import (
    METRIC_CHOICES,
    PARAMETERS,
    RESERVED_AT_MOST,
    JobFields,
    request_in_query,
    request_of,
)
from jobsight_server.web.routes import NAME, Parameter, Route, choice_of, json_text

QUESTIONS_AT_MOST = 10_000


Reserved = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": RESERVED_AT_MOST})]
    | Annotated[str, Meta(description="memory such as 4gb, a run time such as 01:00:00")]
)

_READ = {"memory": memory_bytes, "runtime": time_s}


class AskedQuestion(JobFields, kw_only=True):
    """One question; without metric: all of them."""

    metric: Metric | None = None


class Questions(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/predictions``."""

    questions: Annotated[list[AskedQuestion], Meta(extra_json_schema={"maxItems": QUESTIONS_AT_MOST})]


class ReportedFailure(JobFields, kw_only=True):
    """The job as in a question, and its reservation, in the unit of the answer; ``job_id``, so that it counts once."""

    metric: Metric
    reserved: Reserved
    job_id: (
        Annotated[
            str,
            Meta(
                description="the job's id as in the accounting log",
                extra_json_schema={**NAME, "maxLength": LONGEST_INDEXED},
            ),
        ]
        | None
    ) = None


def ask_one() -> Response:
    """Without ``cluster``: an answer for every cluster where the user has a history."""
    user, cluster, metric = name_argument("user"), cluster_argument(), metric_argument()
    if user is None:
        raise BadRequest("query parameter user is missing; ask /api/v1/predictions?cluster=NAME&user=NAME")
    return json_text(context().answers.reply([request_in_query(cluster, user, metric)]))


def ask_many() -> Response:
    """Answers are in the order of the questions."""
    here = context()
    return json_text(here.answers.reply(_questions(here.settings.max_body_bytes)))


def report_failure() -> Response:
    """Answers with the new recommendation."""
    here = context()
    shape = '{"cluster": C, "user": U, "metric": M, "reserved": NUMBER}, and whatever else is known about the job'
    reported = parsed_body(ReportedFailure, shape)
    request = request_of(reported, reported.metric, "")
    reserved = amount_of(reported.reserved, "reserved", _READ.get(reported.metric, _number), RESERVED_AT_MOST)
    job_id = None if reported.job_id is None else name_text(reported.job_id, "job_id")
    if job_id is not None and len(job_id) > LONGEST_INDEXED:
        raise BadRequest(f"job_id = {job_id[:60]!r} is longer than {LONGEST_INDEXED} characters; no log has such a job")
    try:
        with here.write_engine.begin() as connection:
            return json_text(record_failure(connection, here.answers, request, reserved, job_id))
    except UserError as error:
        raise BadRequest(str(error)) from error


def _questions(limit: int) -> list[ForecastRequest]:
    asked = parsed_body(Questions, '{"questions": [{"cluster": C, "user": U, "metric": M}]}', limit).questions
    if len(asked) > QUESTIONS_AT_MOST:
        raise BadRequest(f"{len(asked)} questions; at most {QUESTIONS_AT_MOST} in one request")
    return [request_of(entry, entry.metric, f"questions[{number}].") for number, entry in enumerate(asked)]


def _number(text: str) -> float:
    raise ValueError(f"{text[:60]!r} is text; give a number in the unit of the metric")


ROUTES = (
    Route(
        "GET",
        "/api/v1/predictions",
        ask_one,
        ("scheduler",),
        "What this user's next job will need. The more the question says about the job, the better the answer. For an "
        "unknown user, the answer comes from other users' jobs or is a reason, not an error",
        (
            Parameter("user", "name as in the accounting log", NAME, required=True),
            Parameter("cluster", "without it: every cluster on which the user has a history", NAME),
            Parameter("metric", "without it: all metrics", choice_of(tuple(METRICS))),
            *PARAMETERS,
        ),
        answer=Predictions,
        errors=(400, 404),
    ),
    Route(
        "POST",
        "/api/v1/predictions",
        ask_many,
        ("scheduler",),
        f"At most {QUESTIONS_AT_MOST} questions at once, answered in order; without a metric: all metrics",
        answer=Predictions,
        body=Questions,
        errors=(400, 404, 413, 415),
    ),
    Route(
        "POST",
        "/api/v1/failures",
        report_failure,
        ("scheduler",),
        "Reports a job that ran out of its reservation. The answer has the new bound for such jobs, which is above it; "
        f"metric is one of {METRIC_CHOICES}",
        answer=Prediction,
        body=ReportedFailure,
        errors=(400, 404, 413, 415, 503),
    ),
)
