"""One user, with a history and the request of the next job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta
from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question, level_fields
from jobsight_server.advice.recommendation import (
    Recommendation,
    asked_as,
    plain_request,
    recommend,
)
from jobsight_server.advice.words import AskLine, Scheduler, lines_to_ask, sentence
from jobsight_server.forecasts import AnswerReader, ForecastRequest, Prediction
from jobsight_server.forecasts.history import MetricHistory, history
from jobsight_server.forecasts.last_runs import last_runs
from jobsight_server.ground.answers import Metric, Record
from jobsight_server.ground.job_names import application
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.schema import job_counts, series


class Borrowed(Record):
    """A metric whose forecast rests on ``n`` jobs of all users that share the fields of ``level`` with this job: they
    forecast better than the user's ``own_jobs``."""

    metric: Metric
    level: str
    n: int
    own_jobs: int


class NextJob(Record):
    """A job on ``processors``, its requests for the whole job, and its predicted needs.

    ``like_job``: the user's last finished job, as which it is submitted; null for a described job. ``text`` is the text
    that users read at submission, ``ask_lines`` the same as lines of a job script. ``forecasts`` are of the whole job;
    ``borrowed`` are those not by the user's own jobs.
    """

    like_job: str | None
    application: str | None
    queue: str | None
    processors: int
    memory_bytes: float | None
    walltime_s: float | None
    text: str
    ask_lines: list[AskLine]
    forecasts: list[Prediction]
    borrowed: list[Borrowed]


def next_job(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    user: str,
    described: Question | None = None,
    scheduler: Scheduler | None = None,
) -> NextJob | None:
    """Return the job of ``described``, with memory per processor; without it, one like the user's last.

    None without a description and a finished job of the user. ``scheduler``: the syntax of the lines, which have the
    form of the last such run.
    """
    if described is not None:
        question = described._replace(processors=described.processors or 1)
        found = recommend(connection, reader, cluster, question, plain_request(described), None)
        runs = last_runs(connection, cluster, user, question.application)
        form = next((run for run in runs if run.processors == question.processors), None)
        return _answer(found, question.application, question.queue, lines_to_ask(found, scheduler, form), None)
    like = next(iter(last_runs(connection, cluster, user)), None)
    if like is None:
        return None
    found = recommend(connection, reader, cluster, *asked_as(connection, user, like), None)
    name = like.name and application(like.name)
    return _answer(found, name, like.queue, lines_to_ask(found, scheduler, like), like.job_id)


def borrowed(found: Recommendation, metrics: Iterable[str] | None = None) -> list[Borrowed]:
    """Return the forecasts, in these metrics or in all, that do not rest on the user's own jobs."""
    answers = list(found.answers.values()) if metrics is None else [found.answers[metric] for metric in metrics]
    return [
        Borrowed(answer.metric, answer.level, answer.n, answer.user_jobs)
        for answer in answers
        if answer.level is not None and "user" not in level_fields(answer.level)
    ]


def _answer(
    found: Recommendation, name: str | None, queue: str | None, lines: list[AskLine], like_job: str | None
) -> NextJob:
    request = found.request
    return NextJob(
        like_job=like_job,
        application=name,
        queue=queue,
        processors=request.processors,
        memory_bytes=request.memory_bytes,
        walltime_s=request.walltime_s,
        text=sentence(found),
        ask_lines=lines,
        forecasts=list(found.answers.values()),
        borrowed=borrowed(found),
    )


HISTORY_LISTED = 300


class UserProfile(Record):
    """One user: runs by state, the recommended request of the next job, and the prediction per metric.

    ``next_job`` is null for a user without a finished job, unless a job was described.
    """

    cluster: str
    user: str
    jobs: dict[str, int]
    last_end: float | None
    next_job: NextJob | None
    metrics: list[Prediction]


class UserHistory(Record):
    """Use of a user's last jobs, per processor where the metric is, with their forecasts and reservations.

    The jobs ended from ``since`` on and before ``until``. Values have six digits.
    """

    cluster: str
    user: str
    since: float | None
    until: float | None
    metrics: Annotated[dict[str, MetricHistory], Meta(extra_json_schema={"propertyNames": {"enum": [*METRICS]}})]


def user_clusters(connection: Connection, user: str) -> list[str]:
    """Return the clusters on which this user ran a job or has a history."""
    ran = select(job_counts.c.cluster).where(job_counts.c.user == user)
    learned = select(series.c.cluster).where(series.c.user == user)
    return sorted(connection.scalars(ran.union(learned)))


def last_end(connection: Connection, cluster: str, user: str) -> float | None:
    """Return the end of the user's last finished job; None without one."""
    of_user = (job_counts.c.cluster == cluster, job_counts.c.user == user)
    found: float | None = connection.scalar(select(func.max(job_counts.c.last_end)).where(*of_user))
    return found


def user_profile(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    user: str,
    described: Question | None = None,
    scheduler: Scheduler | None = None,
) -> UserProfile | None:
    """Return one user, with the recommended request of the next job: ``described``, or like the last. None if the
    cluster does not know the user."""
    query = select(job_counts.c.state, NUMBER, func.max(job_counts.c.last_end)).where(
        job_counts.c.cluster == cluster, job_counts.c.user == user
    )
    states = connection.execute(query.group_by(job_counts.c.state)).all()
    if not states and cluster not in user_clusters(connection, user):
        return None
    return UserProfile(
        cluster=cluster,
        user=user,
        jobs={state: count for state, count, _ in states},
        last_end=max((end for _, _, end in states if end is not None), default=None),
        next_job=next_job(connection, reader, cluster, user, described, scheduler),
        metrics=reader.answers(connection, [ForecastRequest(cluster, Question(user=user))]),
    )


def user_history(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    user: str,
    limit: int = HISTORY_LISTED,
    since: float | None = None,
    until: float | None = None,
    *,
    with_five: bool = False,
) -> UserHistory:
    """Return the user's last ``limit`` jobs that ended in this span; ``with_five``: also the published five's."""
    found = history(connection, cluster, user, limit, since, until, with_five=with_five)
    rounded = {metric: _rounded(of) for metric, of in found.items() if of.n or not METRICS[metric].of_gpus}
    return UserHistory(cluster, user, since, until, rounded)


def _rounded(of: MetricHistory) -> MetricHistory:
    """Round values to six digits: charts show no more, and JSON has a third of the bytes."""
    return msgspec.structs.replace(
        of,
        actual=[float(f"{value:.6g}") for value in of.actual],
        **{name: _digits(getattr(of, name)) for name in ("answered", "bound")},
        forecasts={name: _digits(column) for name, column in of.forecasts.items()},
    )


def _digits(column: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.6g}") for value in column]
