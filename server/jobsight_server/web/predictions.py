"""``/api/v1/predictions``: the need of a user's next job."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from werkzeug.exceptions import BadRequest

from jobsight_predictor.metrics import METRICS
from jobsight_server.advice.recommendation import predictions
from jobsight_server.forecasts import ForecastRequest
from jobsight_server.forecasts.prediction import Predictions
from jobsight_server.ground.answers import Metric
from jobsight_server.ground.parameters import NAME, Parameter, choice_of, whole_number
from jobsight_server.web.kit.inputs import (
    GPUS_AT_MOST,
    PARAMETERS,
    Gpus,
    JobFields,
    choice_argument,
    cluster_argument,
    name_argument,
    number_argument,
    parsed_body,
    request_in_query,
    request_of,
)
from jobsight_server.web.kit.routes import Route, context, reading

QUESTIONS_AT_MOST = 10_000
_GPUS = whole_number(GPUS_AT_MOST, least=0)


class AskedQuestion(JobFields, kw_only=True):
    """One question; without metric: all of them."""

    metric: Metric | None = None
    gpus: Gpus | None = None


class Questions(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/predictions``."""

    questions: Annotated[list[AskedQuestion], Meta(extra_json_schema={"maxItems": QUESTIONS_AT_MOST})]


def ask_one() -> Predictions:
    """Return one answer, or without ``cluster`` one for every cluster where the user has a history."""
    user, cluster, metric = name_argument("user"), cluster_argument(), choice_argument("metric", tuple(METRICS))
    if user is None:
        raise BadRequest("query parameter user is missing; ask /api/v1/predictions?cluster=NAME&user=NAME")
    gpus = number_argument("gpus", _GPUS)
    request = request_in_query(cluster, user, metric)._replace(gpus=None if gpus is None else int(gpus))
    return _answered([request])


def ask_many() -> Predictions:
    """Return the answers, in the order of the questions."""
    limit = context().settings.max_body_bytes
    asked = parsed_body(Questions, '{"questions": [{"cluster": C, "user": U, "metric": M}]}', limit).questions
    if len(asked) > QUESTIONS_AT_MOST:
        raise BadRequest(f"{len(asked)} questions; at most {QUESTIONS_AT_MOST} in one request")
    requests = [
        request_of(entry, entry.metric, f"questions[{number}].")._replace(gpus=entry.gpus)
        for number, entry in enumerate(asked)
    ]
    return _answered(requests)


def _answered(requests: list[ForecastRequest]) -> Predictions:
    return Predictions(predictions(reading(), context().answers, requests))


ROUTES = (
    Route(
        "/api/v1/predictions",
        ask_one,
        "The need of this user's next job. More details of the job make a better forecast. For an unknown user, it "
        "is based on other users' jobs, or the answer is a reason, not an error",
        (
            Parameter("user", "name as in the accounting log", NAME, required=True),
            Parameter("cluster", "without it: every cluster on which the user has a history", NAME),
            Parameter("metric", "without it: all metrics", choice_of(tuple(METRICS))),
            Parameter(
                "gpus",
                "GPUs requested: above 0, all metrics include those of GPUs; without it, if the user's jobs used some",
                _GPUS,
            ),
            *PARAMETERS,
        ),
        answer=Predictions,
        own="user",
    ),
    Route(
        "/api/v1/predictions",
        ask_many,
        f"At most {QUESTIONS_AT_MOST} questions at once, answered in order; without a metric: all metrics",
        method="POST",
        answer=Predictions,
        body=Questions,
    ),
)
