"""The recommended request of a user's next job: one like the last, or a described one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection

from jobsight_predictor.profile.groups import level_fields
from jobsight_predictor.question import Question
from jobsight_server.advice.ask_lines import AskLine, Scheduler, lines_to_ask
from jobsight_server.advice.recommendation import (
    Recommendation,
    plain_request,
    recommend,
    recommend_as_last,
    sentence,
)
from jobsight_server.advice.such_jobs import last_runs
from jobsight_server.forecasts import AnswerReader, Prediction
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.storage.facts import application


class Borrowed(Record):
    """A metric whose forecast rests on ``n`` jobs of all users that share the fields of ``level`` with this job: they
    forecast better than the user's ``own_jobs``."""

    metric: Metric
    level: str
    n: int
    own_jobs: int


class NextJob(Record):
    """A job of so many ``processors``, its requests for the whole job, and its forecast needs.

    ``like_job``: the user's last finished job, as which it is submitted; null for a described job. ``text`` is the
    text that users read at submission, ``ask_lines`` the same as lines of a job script. ``enough_share``: the chance
    that these are enough. ``forecasts`` are of the whole job; ``borrowed`` are those not by the user's own jobs.
    """

    like_job: str | None
    application: str | None
    queue: str | None
    processors: int
    memory_bytes: float | None
    walltime_s: float | None
    text: str
    ask_lines: list[AskLine]
    enough_share: Share | None
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

    None without a description and a finished job of the user. ``scheduler``: the syntax of the lines.
    """
    runs = last_runs(connection, cluster, user)
    if described is not None:
        question = replace(described, processors=described.processors or 1)
        found = recommend(connection, reader, cluster, question, plain_request(described), None, runs)
        return _answer(found, question.application, question.queue, lines_to_ask(found, scheduler), None)
    if not runs:
        return None
    like = runs[0]
    found = recommend_as_last(connection, reader, cluster, user, like, runs, None)
    name = like.name and application(like.name)
    return _answer(found, name, like.queue, lines_to_ask(found, scheduler, like.requested_nodes), like.job_id)


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
        enough_share=found.enough_share,
        forecasts=list(found.answers.values()),
        borrowed=borrowed(found),
    )
