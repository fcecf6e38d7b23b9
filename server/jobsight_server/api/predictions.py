"""``/api/v1/predictions``: what a user's next job will need."""

from __future__ import annotations

import msgspec
from flask import Response, request
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_server.api.inputs import cluster_argument, json_body, metric_argument, name_argument
from jobsight_server.api.job_fields import FIELDS, PARAMETERS, JobFields, question_in_query, question_of
from jobsight_server.api.reply import json_text
from jobsight_server.api.routes import NAME, Parameter, Route
from jobsight_server.forecasts import Question
from jobsight_server.site import site

QUESTIONS_AT_MOST = 10_000


class AskedQuestion(JobFields, forbid_unknown_fields=True, kw_only=True):
    """One entry of the body's ``questions``; without metric: all of them."""

    metric: str | None = None


class AskedQuestions(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/predictions``."""

    questions: list[AskedQuestion]


_decode = msgspec.json.Decoder(AskedQuestions).decode


def ask_one() -> Response:
    """Without ``cluster``: an answer for every cluster where the user has a history."""
    user, cluster, metric = name_argument("user"), cluster_argument(), metric_argument()
    if user is None:
        raise BadRequest("query parameter user is missing; ask /api/v1/predictions?cluster=NAME&user=NAME")
    answers = site().answers
    if request.args.keys().isdisjoint(FIELDS):
        return json_text(answers.reply(cluster, user, metric))
    return json_text(answers.reply_to(question_in_query(cluster or "", user, metric)))


def ask_many() -> Response:
    """Answers stand in the order of the questions."""
    here = site()
    return json_text(here.answers.reply_to_all(_questions(json_body(here.settings.max_body_bytes))))


def _questions(body: bytes) -> list[Question]:
    try:
        asked = _decode(body).questions
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f'{error}; send {{"questions": [{{"cluster": C, "user": U, "metric": M}}]}}') from error
    if len(asked) > QUESTIONS_AT_MOST:
        raise BadRequest(f"{len(asked)} questions; at most {QUESTIONS_AT_MOST} in one request")
    return [question_of(entry, entry.metric, f"questions[{number}].") for number, entry in enumerate(asked)]


ROUTES = (
    Route(
        "GET",
        "/api/v1/predictions",
        ask_one,
        ("scheduler",),
        "What this user's next job will need; the more the question says about the job, the better the answer; an "
        "unknown user is answered from others' jobs or with a reason, not with an error",
        "Predictions",
        (
            Parameter("user", "as the accounting log writes the name", NAME, required=True),
            Parameter("cluster", "without it: every cluster on which the user has a history", NAME),
            Parameter("metric", "without it: all metrics", {"type": "string", "enum": list(METRICS)}),
            *PARAMETERS,
        ),
        errors=(400, 404),
    ),
    Route(
        "POST",
        "/api/v1/predictions",
        ask_many,
        ("scheduler",),
        f"At most {QUESTIONS_AT_MOST} questions at once, answered in their order; without a metric: all metrics",
        "Predictions",
        body="Questions",
        errors=(400, 404, 413, 415),
    ),
)
