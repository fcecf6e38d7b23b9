"""``/api/v1/failures``: jobs that ran out of their reservations."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import Response
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_server.amounts import memory_bytes, time_s
from jobsight_server.errors import UserError
from jobsight_server.forecasts import Prediction, record_failure
from jobsight_server.record import Metric
from jobsight_server.web.context import context
from jobsight_server.web.inputs import amount_of, json_body
from jobsight_server.web.questions import METRIC_CHOICES, RESERVED_AT_MOST, JobFields, request_of
from jobsight_server.web.routes import Route, json_text

Reserved = (
    Annotated[float, Meta(extra_json_schema={"exclusiveMinimum": 0, "maximum": RESERVED_AT_MOST})]
    | Annotated[str, Meta(description="memory such as 4gb, a run time such as 01:00:00")]
)

_READ = {"memory": memory_bytes, "runtime": time_s}


class ReportedFailure(JobFields, kw_only=True):
    """The job as in a question, and its reservation, in the unit of the answer."""

    metric: Metric
    reserved: Reserved


def _number(text: str) -> float:
    raise ValueError(f"{text[:60]!r} is text; give a number in the unit of the metric")


_decode = msgspec.json.Decoder(ReportedFailure).decode


def report_failure() -> Response:
    """Answers with the new recommendation."""
    here = context()
    body = json_body(here.settings.max_body_bytes)
    try:
        reported = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        shape = '{"cluster": C, "user": U, "metric": M, "reserved": NUMBER}'
        raise BadRequest(f"{error}; send {shape}, and whatever else is known about the job") from error
    request = request_of(reported, reported.metric, "")
    reserved = amount_of(reported.reserved, "reserved", _READ.get(reported.metric, _number), RESERVED_AT_MOST)
    try:
        with here.write_engine.begin() as connection:
            return json_text(record_failure(connection, here.answers, request, reserved))
    except UserError as error:
        raise BadRequest(str(error)) from error


ROUTES = (
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
