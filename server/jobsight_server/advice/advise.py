"""The advice for one submitted job."""

from __future__ import annotations

from sqlalchemy import Connection

from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Question
from jobsight_server.advice.job_request import JobRequest
from jobsight_server.advice.pbs_words import PbsAdvice, PbsRequest, pbs_advice
from jobsight_server.advice.recommendation import ASKED_FOR, recommend
from jobsight_server.advice.sentence import pbs_memory_text, sentence
from jobsight_server.advice.slurm_words import SlurmAdvice, slurm_advice
from jobsight_server.amounts import memory_text
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.record import Metric, Record, Share

WASTEFUL = 2.0
"""A request of this many times the recommendation, or what such jobs used, is worth a word to the user."""


class WholeJobForecast(Record):
    """What the whole job requests in one metric, is expected to use, and should reserve; or the reason why not.

    ``attempts``: what to reserve at each attempt, ``reserve`` first.
    """

    metric: Metric
    unit: str
    requested: float | None
    forecast: float | None
    probability: Share | None
    reserve: float | None
    attempts: tuple[float, ...]
    basis: Basis | None
    level: str | None
    n: int
    reason: str | None


class Advice(Record):
    """What a submitted job should ask for.

    ``such_jobs`` of the user have been measured; ``text`` says what they used. ``notable``: such jobs are known, and
    the request is below what is recommended, or twice as large; where no amount is recommended, what such jobs used
    counts instead. ``slurm`` and ``pbs`` are the recommendation in the
    words of the question.
    """

    cluster: str
    user: str
    text: str
    notable: bool
    such_jobs: int
    such_jobs_memory_bytes: float | None
    such_jobs_runtime_s: float | None
    processors: int
    nodes: int
    forecasts: list[WholeJobForecast]
    slurm: SlurmAdvice | None
    pbs: PbsAdvice | None


def advise(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    question: Question,
    request: JobRequest,
    pbs: PbsRequest | None = None,
    *,
    slurm: bool = False,
) -> Advice:
    """``question`` and ``request`` describe the same job; ``pbs`` and ``slurm`` say in which words to answer."""
    found = recommend(connection, reader, cluster, question, request)
    such, memory, runtime = found.such_jobs, found.memory_bytes, found.runtime_s
    return Advice(
        cluster=cluster,
        user=question.user or "",
        text=sentence(found, memory_text if pbs is None else pbs_memory_text),
        notable=_is_notable(request.memory_bytes, memory, such.memory_bytes)
        or _is_notable(request.walltime_s, runtime, such.runtime_s),
        such_jobs=such.jobs,
        such_jobs_memory_bytes=such.memory_bytes,
        such_jobs_runtime_s=such.runtime_s,
        processors=request.processors,
        nodes=request.nodes or 1,
        forecasts=[_forecast(found.answers[metric], _requested(metric, request)) for metric in ASKED_FOR],
        slurm=slurm_advice(request, memory, runtime) if slurm else None,
        pbs=None if pbs is None else pbs_advice(pbs, request, memory, runtime),
    )


def _is_notable(asked: float | None, recommended: float | None, used: float | None) -> bool:
    if asked is None or used is None:
        return False
    enough = used if recommended is None else recommended
    return not enough <= asked < WASTEFUL * enough


def _requested(metric: str, request: JobRequest) -> float | None:
    return request.memory_bytes if metric == "memory" else request.walltime_s


def _forecast(answer: Prediction, requested: float | None) -> WholeJobForecast:
    return WholeJobForecast(
        metric=answer.metric,
        unit=answer.unit,
        requested=requested,
        forecast=answer.value,
        probability=answer.probability,
        reserve=answer.bound,
        attempts=answer.attempts,
        basis=answer.bound_basis,
        level=answer.level,
        n=answer.n,
        reason=answer.reason,
    )
