"""``/api/v1/failures``: jobs that ran out of what was reserved for them."""

from __future__ import annotations

import msgspec
from flask import Response
from werkzeug.exceptions import BadRequest

from jobsight_server.amounts import memory_bytes, time_s
from jobsight_server.api.inputs import amount_of, json_body
from jobsight_server.api.job_fields import METRIC_CHOICES, RESERVED_AT_MOST, JobFields, question_of
from jobsight_server.api.reply import json_text
from jobsight_server.api.routes import Route
from jobsight_server.errors import UserError
from jobsight_server.forecasts import take_failure
from jobsight_server.site import site

_READ = {"memory": memory_bytes, "runtime": time_s}


class ReportedFailure(JobFields, forbid_unknown_fields=True, kw_only=True):
    """The body: the job as a question names it, and what had been reserved, in the unit of the answer."""

    metric: str
    reserved: float | str


def _number(text: str) -> float:
    raise ValueError(f"{text[:60]!r} is text; give a number in the unit of the metric")


_decode = msgspec.json.Decoder(ReportedFailure).decode


def report_failure() -> Response:
    """Answers with what is recommended from now on."""
    here = site()
    body = json_body(here.settings.max_body_bytes)
    try:
        reported = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        shape = '{"cluster": C, "user": U, "metric": M, "reserved": NUMBER}'
        raise BadRequest(f"{error}; send {shape}, and what else was known of the job") from error
    question = question_of(reported, reported.metric, "")
    reserved = amount_of(reported.reserved, "reserved", _READ.get(reported.metric, _number), RESERVED_AT_MOST)
    try:
        with here.write_engine.begin() as connection:
            return json_text(take_failure(connection, here.method, question, reserved))
    except UserError as error:
        raise BadRequest(str(error)) from error


ROUTES = (
    Route(
        "POST",
        "/api/v1/failures",
        report_failure,
        ("scheduler",),
        "A job ran out of what was reserved for it: the bound for such jobs is above that from now on, as answered; "
        f"metric is one of {METRIC_CHOICES}",
        "Answer",
        body="Failure",
        errors=(400, 404, 413, 415, 503),
    ),
)
