"""Answers questions about jobs that are not placed yet.

A question that names nothing but the user is a look-up by primary key of what was made when the user last learned,
unless that was made under another configuration. Any other is computed from the few parts of the profile that it
touches; nothing is kept between questions.
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
from jobsight_server.forecasts.per import WHOLE, processors_of, whole_job
from jobsight_server.forecasts.question import job_question

# Three parameters a key; older SQLite takes 999 in all.
_KEYS_AT_ONCE = 300
# Computed together, from parts read together.
_COMPUTED_AT_ONCE = 200
_NOTHING_MORE = (None,) * 5

NOWHERE = "no history: no cluster knows this user; name a cluster to get an answer from other users' jobs there"
RETRAINING = "the model was trained with other settings or by another version and is being retrained; try again later"

# The one way in which answers are written: a name is the same bytes wherever it is asked for.
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class UnknownMetricError(UserError):
    """A metric that is not forecast."""


class Question(NamedTuple):
    """What will the next job of ``user`` on ``cluster`` need? ``metric`` None asks for all of them.

    What else is known of the job when it is submitted, as the accounting log would have it: ``application`` may be
    the job's name, ``memory_bytes`` and ``walltime_s`` are what the whole job asks for. ``per`` says whether the
    values of the answer are per ``processor`` or for the whole ``job``, which takes ``processors``.
    """

    cluster: str
    user: str
    metric: str | None = None
    application: str | None = None
    queue: str | None = None
    processors: int | None = None
    memory_bytes: float | None = None
    walltime_s: float | None = None
    per: str = "processor"

    @property
    def job(self) -> JobQuestion:
        """The same as it is learned."""
        return job_question(self.user, *self[3:8])


class _Asked(NamedTuple):
    """One metric of a question; ``job`` is None where nothing but the user is known."""

    key: Key
    job: JobQuestion | None
    scale: int | None


def answers(connection: Connection, questions: Sequence[Question], method: Method) -> list[dict[str, Any]]:
    """The answers in the order of the questions; a question without a metric has one for each.

    An answer echoes cluster, user and metric. Where nothing is known, ``value`` is None and there is a reason.
    ``method`` is how this site makes its profiles: what was learned otherwise is not answered from.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    return [json.loads(text) for text in answer_texts(connection, questions, method)]


def answer_texts(connection: Connection, questions: Sequence[Question], method: Method) -> list[str]:
    """The same, each as JSON text: a stored text has the echo put before it, and nothing is parsed.

    Raises:
        UnknownMetricError: a question names a metric that is not forecast.
    """
    asked = [entry for question in questions for entry in _asked(question)]
    stored = stored_texts(connection, list(dict.fromkeys(entry.key for entry in asked)))
    rest = [entry for entry in asked if entry.job or not method.made(stored.get(entry.key, ""))]
    computed: dict[tuple[Key, JobQuestion | None], str] = {}
    rest = list({entry[:2]: entry for entry in rest}.values())
    for begin in range(0, len(rest), _COMPUTED_AT_ONCE):
        some = rest[begin : begin + _COMPUTED_AT_ONCE]
        computed |= _computed(connection, some, stored, method)
    return [
        written(*entry.key, computed[entry[:2]] if entry[:2] in computed else stored[entry.key], entry.scale)
        for entry in asked
    ]


def no_history(question: Question, method: Method) -> list[str]:
    """The answers, as JSON text, for a user whom no cluster knows, where none was named."""
    return [
        written(None, question.user, entry.key.metric, _encode(_without(entry.key.metric, method)), entry.scale)
        for entry in _asked(question)
    ]


def written(cluster: str | None, user: str, metric: str, answer: str, scale: int | None = None) -> str:
    """An answer as it is sent: ``answer``, which does not name what it is about, with these names before it.

    ``scale``: how many processors the values are for; None leaves them per processor.
    """
    per = "job" if scale is not None or metric in WHOLE else "processor"
    if scale is not None and metric not in WHOLE:
        answer = _encode(whole_job(json.loads(answer), metric, scale))
    return f'{{"cluster":{_encode(cluster)},"user":{_encode(user)},"metric":"{metric}","per":"{per}",{answer[1:]}'


def _asked(question: Question) -> list[_Asked]:
    if question.metric is not None and question.metric not in METRICS:
        raise UnknownMetricError(f"metric {question.metric!r} is not forecast; ask for one of {', '.join(METRICS)}")
    metrics = METRICS if question.metric is None else (question.metric,)
    job = None
    if question[3:8] != _NOTHING_MORE and question.job != JobQuestion(user=question.user):
        job = question.job
    scale = processors_of(question.processors, metrics) if question.per == "job" else None
    return [_Asked(Key(question.cluster, question.user, metric), job, scale) for metric in metrics]


def _computed(
    connection: Connection, asked: Sequence[_Asked], stored: dict[Key, str], method: Method
) -> dict[tuple[Key, JobQuestion | None], str]:
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
        entry[:2]: _text(None if place in unusable else profiles[place], entry, stored.get(entry.key), method)
        for entry in asked
        for place in [(entry.key.cluster, entry.key.metric)]
    }


def _job(asked: _Asked) -> JobQuestion:
    return asked.job or JobQuestion(user=asked.key.user)


def _text(profile: Profile | None, asked: _Asked, stored: str | None, method: Method) -> str:
    """The user's stored answer, if there is one, has the published five; all else is the profile's."""
    fields = _without(asked.key.metric, method) if stored is None else json.loads(stored)
    if profile is None:
        fields |= no_answer(asked.key.metric, method.coverage, RETRAINING)
    else:
        fields |= answer_fields(profile, _job(asked))
    return _encode(fields)


def _without(metric: str, method: Method) -> dict[str, Any]:
    """Every field of an answer where nothing is known."""
    return no_answer(metric, method.coverage, NOWHERE) | five_fields(Series().answer(), None)


def stored_texts(connection: Connection, keys: Sequence[Key]) -> dict[Key, str]:
    """What was written when these series last learned; those that never did are left out."""
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
