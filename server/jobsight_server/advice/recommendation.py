"""What to ask for: the reservation for the whole job, also where the job asks for less than such jobs used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_server.advice.job_request import JobRequest
from jobsight_server.advice.such_jobs import SuchJobs, such_jobs
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.prediction import Prediction

ASKED_FOR = ("memory", "runtime")
"""The metrics that a job asks an amount of."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Forecasts by metric and the amounts to ask for, of the whole job.

    An amount is None where nothing is known, or where the job's own request is the best reservation.
    """

    such_jobs: SuchJobs
    answers: dict[str, Prediction]
    memory_bytes: float | None
    runtime_s: float | None


def recommend(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    question: Question,
    request: JobRequest,
    metrics: Sequence[str] = ASKED_FOR,
) -> Recommendation:
    """``question``, whose processors are known, and ``request`` describe the same job.

    ``metrics``, with ``ASKED_FOR``, are those to forecast.
    """
    such = such_jobs(connection, cluster, question, request.processors)
    answers = _answers(connection, reader, cluster, question, metrics)
    memory, runtime = _reservation(answers["memory"]), _reservation(answers["runtime"])
    too_little, too_short = _below(request.memory_bytes, such.memory_bytes), _below(request.walltime_s, such.runtime_s)
    if too_little or too_short:
        # No more than its request is reserved for a job. Such jobs needed more: what if it asked as the last of them?
        usual = _answers(connection, reader, cluster, _as_the_last(question, request, such), ASKED_FOR)
        memory = _reservation(usual["memory"]) if too_little else memory
        runtime = _reservation(usual["runtime"]) if too_short else runtime
    return Recommendation(such, answers, memory, runtime)


def _answers(
    connection: Connection, reader: AnswerReader, cluster: str, question: Question, metrics: Sequence[str]
) -> dict[str, Prediction]:
    """For the whole job, by metric."""
    requests = [ForecastRequest(cluster, question, metric, "job") for metric in metrics]
    return {answer.metric: answer for answer in reader.answers(connection, requests)}


def _as_the_last(question: Question, request: JobRequest, such: SuchJobs) -> Question:
    memory, time = such.last_request_bytes, such.last_request_s
    return replace(
        question,
        requested_memory_bytes=None if memory is None else memory / request.processors,
        requested_time_s=time,
    )


def _below(asked: float | None, used: float | None) -> bool:
    return asked is not None and used is not None and asked < used


def _reservation(answer: Prediction) -> float | None:
    """The bound, unless it is only the request again."""
    return None if answer.bound_basis == "request" else answer.bound
