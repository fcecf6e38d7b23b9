"""``/api/v1/predictions``: what a user's next job will need."""

from __future__ import annotations

import msgspec
from flask import Response, request
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge, UnsupportedMediaType

from jobsight_predictor.metrics import METRICS
from jobsight_server.api.inputs import metric_argument, name_argument, name_text
from jobsight_server.api.reply import json_text
from jobsight_server.api.routes import TEXT, Parameter, Route
from jobsight_server.forecasts import Question, answer_texts
from jobsight_server.site import site

QUESTIONS_AT_MOST = 10_000


class AskedQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of the body's ``questions``; without metric: all of them."""

    cluster: str
    user: str
    metric: str | None = None


class AskedQuestions(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/predictions``."""

    questions: list[AskedQuestion]


_decode = msgspec.json.Decoder(AskedQuestions).decode


def ask_one() -> Response:
    """Without ``cluster``: an answer for every cluster where the user has a history."""
    user, cluster, metric = name_argument("user"), name_argument("cluster"), metric_argument()
    if user is None:
        raise BadRequest("query parameter user is missing; ask /api/v1/predictions?cluster=NAME&user=NAME")
    return json_text(site().answers.reply(cluster, user, metric))


def ask_many() -> Response:
    """Answers stand in the order of the questions."""
    asked = _questions(_body(site().settings.max_body_bytes))
    with site().read_engine.connect() as connection:
        return json_text(f'{{"predictions":[{",".join(answer_texts(connection, asked))}]}}')


def _body(limit: int) -> bytes:
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(f"Content-Type is {request.mimetype[:60]!r}; send application/json")
    body = request.stream.read(limit + 1)
    if len(body) > limit:
        raise RequestEntityTooLarge(f"the body has more than {limit} bytes; ask in several requests")
    return body


def _questions(body: bytes) -> list[Question]:
    try:
        asked = _decode(body).questions
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f'{error}; send {{"questions": [{{"cluster": C, "user": U, "metric": M}}]}}') from error
    if len(asked) > QUESTIONS_AT_MOST:
        raise BadRequest(f"{len(asked)} questions; at most {QUESTIONS_AT_MOST} in one request")
    return [_question(number, entry) for number, entry in enumerate(asked)]


def _question(number: int, asked: AskedQuestion) -> Question:
    place = f"questions[{number}]"
    if asked.metric is not None and asked.metric not in METRICS:
        raise BadRequest(f"{place}.metric = {asked.metric[:60]!r} is unknown; use one of: {', '.join(METRICS)}")
    cluster, user = name_text(asked.cluster, f"{place}.cluster"), name_text(asked.user, f"{place}.user")
    return Question(cluster, user, asked.metric)


ROUTES = (
    Route(
        "GET",
        "/api/v1/predictions",
        ask_one,
        ("scheduler",),
        "What this user's next job will need; an unknown user is answered with a reason, not an error",
        "Predictions",
        (
            Parameter("user", "as the accounting log writes the name", TEXT, required=True),
            Parameter("cluster", "without it: every cluster on which the user has a history", TEXT),
            Parameter("metric", "without it: all metrics", {"type": "string", "enum": list(METRICS)}),
        ),
        errors=(400,),
    ),
    Route(
        "POST",
        "/api/v1/predictions",
        ask_many,
        ("scheduler",),
        f"At most {QUESTIONS_AT_MOST} questions at once, answered in their order; without a metric: all metrics",
        "Predictions",
        body="Questions",
        errors=(400, 413, 415),
    ),
)
