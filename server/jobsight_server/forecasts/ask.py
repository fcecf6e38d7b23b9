"""Answers questions about a user's next job: a look-up by primary key of what was made when it last learned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.series import Series
from jobsight_server.errors import UserError
from jobsight_server.forecasts.learn import Key, answer_fields

# Three parameters a key; older SQLite takes 999 in all.
_KEYS_AT_ONCE = 300


class UnknownMetricError(UserError):
    """A metric that is not forecast."""


class Question(NamedTuple):
    """What will the next job of ``user`` on ``cluster`` need? ``metric`` None asks for all of them."""

    cluster: str
    user: str
    metric: str | None = None


def answers(connection: Connection, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """The answers in the order of the questions; a question without a metric has one for each.

    An answer echoes cluster, user and metric. A user that is not known gets ``value`` None, ``n`` 0 and a reason.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    return [json.loads(text) for text in answer_texts(connection, questions)]


def answer_texts(connection: Connection, questions: Sequence[Question]) -> list[str]:
    """The same, each as JSON text: the stored text with the echo put before it, nothing parsed.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    keys = [key for question in questions for key in _keys(question)]
    known = _stored(connection, list(dict.fromkeys(keys)))
    return [_text(key, known.get(key)) for key in keys]


def _text(key: Key, answer: str | None) -> str:
    if answer is None:
        return json.dumps(no_history(key.cluster, key.user, key.metric))
    return f'{{"cluster":{json.dumps(key.cluster)},"user":{json.dumps(key.user)},"metric":"{key.metric}",{answer[1:]}'


def no_history(cluster: str | None, user: str, metric: str) -> dict[str, Any]:
    """The answer where nothing was learned yet; ``cluster`` None where no cluster knows the user."""
    unknown = answer_fields(metric, Series().answer(), None)
    return {"cluster": cluster, "user": user, "metric": metric, **unknown}


def _keys(question: Question) -> list[Key]:
    if question.metric is None:
        return [Key(question.cluster, question.user, metric) for metric in METRICS]
    if question.metric not in METRICS:
        raise UnknownMetricError(f"metric {question.metric!r} is not forecast; ask for one of {', '.join(METRICS)}")
    return [Key(question.cluster, question.user, question.metric)]


def _stored(connection: Connection, keys: Sequence[Key]) -> dict[Key, str]:
    placeholder = "?" if connection.dialect.name == "sqlite" else "%s"
    row = f"({placeholder},{placeholder},{placeholder})"
    found: dict[Key, str] = {}
    for begin in range(0, len(keys), _KEYS_AT_ONCE):
        some = keys[begin : begin + _KEYS_AT_ONCE]
        # Asked first and joined in this order: SQLite would scan the whole table for (..) IN (VALUES ..).
        query = (
            f'WITH asked(cluster, "user", metric) AS (VALUES {",".join([row] * len(some))}) '
            'SELECT s.cluster, s."user", s.metric, s.answer FROM asked CROSS JOIN series s '
            'WHERE s.cluster = asked.cluster AND s."user" = asked."user" AND s.metric = asked.metric'
        )
        parameters = tuple(part for key in some for part in key)
        for cluster, user, metric, answer in connection.exec_driver_sql(query, parameters):
            found[Key(cluster, user, metric)] = answer
    return found
