"""Answers questions about jobs that are not placed yet.

A question that tells nothing but the user is a look-up by primary key of what was made when the user last learned.
Any other is computed from the few parts of the profile that it touches; nothing is kept between questions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile import Profile
from jobsight_predictor.series import Series
from jobsight_predictor.templates import Question as JobQuestion
from jobsight_server.errors import UserError
from jobsight_server.forecasts.answer import answer_fields, five_fields, no_answer
from jobsight_server.forecasts.learn import Key
from jobsight_server.forecasts.method import Method
from jobsight_server.forecasts.parts import Part, read_parts
from jobsight_server.forecasts.question import job_question

# Three parameters a key; older SQLite takes 999 in all.
_KEYS_AT_ONCE = 300
# Computed together, from parts read together.
_COMPUTED_AT_ONCE = 200
_NOTHING_MORE = (None,) * 5

NOWHERE = "no history: no cluster knows this user; name the cluster to be answered from what others' jobs used there"
BEING_LEARNED = (
    "The model was trained with other settings or by another version and is being retrained. Try again later."
)


class UnknownMetricError(UserError):
    """A metric that is not forecast."""


class Question(NamedTuple):
    """What will the next job of ``user`` on ``cluster`` need? ``metric`` None asks for all of them.

    What else is known of the job when it is submitted, as the accounting log would have it: ``application`` may be
    the job's name, ``memory_bytes`` and ``walltime_s`` are what the whole job asks for.
    """

    cluster: str
    user: str
    metric: str | None = None
    application: str | None = None
    queue: str | None = None
    processors: int | None = None
    memory_bytes: float | None = None
    walltime_s: float | None = None

    @property
    def job(self) -> JobQuestion:
        """The same as it is learned."""
        return job_question(self.user, *self[3:])


class _Asked(NamedTuple):
    """One metric of a question; ``job`` is None where nothing but the user is known."""

    key: Key
    job: JobQuestion | None


def answers(
    connection: Connection, questions: Sequence[Question], method: Method | None = None
) -> list[dict[str, Any]]:
    """The answers in the order of the questions; a question without a metric has one for each.

    An answer echoes cluster, user and metric. Where nothing is known, ``value`` is None and there is a reason.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    return [json.loads(text) for text in answer_texts(connection, questions, method)]


def answer_texts(connection: Connection, questions: Sequence[Question], method: Method | None = None) -> list[str]:
    """The same, each as JSON text: a stored text has the echo put before it, and nothing is parsed.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    asked = [entry for question in questions for entry in _asked(question)]
    stored = _stored(connection, list(dict.fromkeys(entry.key for entry in asked)))
    rest = list(dict.fromkeys(entry for entry in asked if entry.job is not None or entry.key not in stored))
    computed: dict[_Asked, str] = {}
    for begin in range(0, len(rest), _COMPUTED_AT_ONCE):
        some = rest[begin : begin + _COMPUTED_AT_ONCE]
        computed |= _computed(connection, some, stored, method or Method())
    return [_echoed(entry.key, computed[entry] if entry in computed else stored[entry.key]) for entry in asked]


def no_history(cluster: str | None, user: str, metric: str) -> dict[str, Any]:
    """The answer for a user whom no cluster knows, where none was named."""
    fields = no_answer(metric, Method().coverage, NOWHERE) | five_fields(Series().answer(), None)
    return {"cluster": cluster, "user": user, "metric": metric, **fields}


def _echoed(key: Key, answer: str) -> str:
    return f'{{"cluster":{json.dumps(key.cluster)},"user":{json.dumps(key.user)},"metric":"{key.metric}",{answer[1:]}'


def _asked(question: Question) -> list[_Asked]:
    if question.metric is not None and question.metric not in METRICS:
        raise UnknownMetricError(f"metric {question.metric!r} is not forecast; ask for one of {', '.join(METRICS)}")
    metrics = METRICS if question.metric is None else (question.metric,)
    job = None
    if question[3:] != _NOTHING_MORE and question.job != JobQuestion(user=question.user):
        job = question.job
    return [_Asked(Key(question.cluster, question.user, metric), job) for metric in metrics]


def _computed(
    connection: Connection, asked: Sequence[_Asked], stored: dict[Key, str], method: Method
) -> dict[_Asked, str]:
    profiles = {(entry.key.cluster, entry.key.metric): method.profile(entry.key.metric) for entry in asked}
    wanted = [
        Part(entry.key.cluster, entry.key.metric, name)
        for entry in asked
        for name in profiles[entry.key.cluster, entry.key.metric].parts(_job(entry))
    ]
    unusable = set()
    for place, parts in read_parts(connection, wanted).items():
        try:
            profiles[place].load(parts)
        except ValueError:
            unusable.add(place)
    return {
        entry: _text(None if place in unusable else profiles[place], entry, stored.get(entry.key), method)
        for entry in asked
        for place in [(entry.key.cluster, entry.key.metric)]
    }


def _job(asked: _Asked) -> JobQuestion:
    return asked.job or JobQuestion(user=asked.key.user)


def _text(profile: Profile | None, asked: _Asked, stored: str | None, method: Method) -> str:
    """The user's stored answer, if there is one, tells of the published five; all else comes from the profile."""
    if stored is None:
        fields = five_fields(Series().answer(), None)
    else:
        fields = json.loads(stored)
    if profile is None:
        fields |= no_answer(asked.key.metric, method.coverage, BEING_LEARNED)
    else:
        fields |= answer_fields(profile, _job(asked))
    return json.dumps(fields, separators=(",", ":"))


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
