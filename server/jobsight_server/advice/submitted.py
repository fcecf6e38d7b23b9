"""Advice on the request of a job as it is submitted, for the command and the hooks of schedulers."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Question
from jobsight_server.advice.recommendation import JobRequest, recommend, requested
from jobsight_server.advice.scheduler_words import (
    PbsAdvice,
    PbsRequest,
    SlurmAdvice,
    pbs_advice,
    slurm_advice,
)
from jobsight_server.advice.words import pbs_memory_text, sentence
from jobsight_server.decision.evidence import ASKED_FOR
from jobsight_server.decision.lately import Lately
from jobsight_server.decision.rule import Kept
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.stored_model import SeriesKey, read_answers
from jobsight_server.ground.amounts import memory_text
from jobsight_server.ground.answers import Metric, Record, Share

WASTEFUL = 2.0
"""Notify the user of a request this many times the recommendation, or the use of similar jobs."""


class WholeJobForecast(Record):
    """Request, expected use and reservation of the whole job in one metric; without a forecast, the reason.

    ``reserve`` is the recommended request, or the request itself if it is ``kept`` for that reason. ``attempts``: the
    requests at each attempt, ``reserve`` first.
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
    kept: Kept | None
    reason: str | None


class Advice(Record):
    """The recommended request of a submitted job.

    ``such_jobs``: number of the user's similar jobs with measurements; ``text`` has their use. ``notable``: there are
    similar jobs, and the request is below the recommendation, or twice as large; without a recommendation, the use of
    similar jobs counts. ``engine``: the workflow engine that named the job, and alone may change its request. ``slurm``
    and ``pbs`` are what a hook may set, in the words of the question: memory, and a time limit that is longer.
    """

    cluster: str
    user: str
    text: str
    notable: bool
    engine: str | None
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
    gpus: int | None = None,
    engine: str | None = None,
    lately: Lately | None = None,
    now: float = 0.0,
) -> Advice:
    """Advise on ``request``, of the same job as ``question``, in the words of PBS, of Slurm, or neither.

    ``gpus``: requested ones; None is unknown. ``lately``: jobs that were lowered just before ``now`` (UTC).
    """
    of_gpus = _metrics_of_gpus(connection, cluster, question.user or "", gpus)
    request = replace(request, gpus=gpus)
    metrics, name = (*ASKED_FOR, *of_gpus), (cluster, question.user or "", question.application)
    found = recommend(connection, reader, cluster, question, request, metrics)
    decided = found.decisions["memory"]
    is_lowered = decided.amount is not None and decided.amount < (request.memory_bytes or 0.0)
    if lately is not None and engine is None and is_lowered:
        if lately.is_unproven(*name, max(row.end for row in decided.similar.rows), now):
            found = recommend(connection, reader, cluster, question, request, metrics, is_unproven=True)
        else:
            lately.add(*name, now)
    memory, runtime = (found.decisions[metric].amount for metric in ASKED_FOR)
    used_bytes, ran_s = map(found.most, ASKED_FOR)
    return Advice(
        cluster=cluster,
        user=question.user or "",
        text=sentence(found, memory_text if pbs is None else pbs_memory_text),
        notable=_is_notable(request.memory_bytes, memory, used_bytes)
        or _is_notable(request.walltime_s, runtime or found.decisions["runtime"].shorter, ran_s),
        engine=engine,
        such_jobs=found.similar.runs,
        such_jobs_memory_bytes=used_bytes,
        such_jobs_runtime_s=ran_s,
        processors=request.processors,
        nodes=request.nodes or 1,
        forecasts=[
            *(
                _forecast(found.answers[metric], requested(metric, request), found.decisions[metric].kept)
                for metric in ASKED_FOR
            ),
            *(_forecast(found.answers[metric], gpus if metric == "gpu_utilisation" else None) for metric in of_gpus),
        ],
        slurm=slurm_advice(request, memory, runtime) if slurm else None,
        # PBS's words in an answer are of resident memory.
        pbs=None if pbs is None else pbs_advice(pbs, request, None if found.memory_is_virtual else memory, runtime),
    )


def _is_notable(asked: float | None, recommended: float | None, used: float | None) -> bool:
    if asked is None or used is None:
        return False
    enough = used if recommended is None else recommended
    return not enough <= asked < WASTEFUL * enough


def _metrics_of_gpus(connection: Connection, cluster: str, user: str, gpus: int | None) -> list[str]:
    """Return the GPU metrics to forecast: all for a job with GPUs; if that is unknown, those of the user's jobs."""
    names = [name for name, metric in METRICS.items() if metric.of_gpus]
    if gpus is None:
        used = read_answers(connection, [SeriesKey(cluster, user, name) for name in names])
        return [name for name in names if SeriesKey(cluster, user, name) in used]
    return names if gpus else []


def _forecast(answer: Prediction, asked: float | None, kept: Kept | None = None) -> WholeJobForecast:
    same = {name: getattr(answer, name) for name in WholeJobForecast.__struct_fields__ if hasattr(answer, name)}
    return WholeJobForecast(
        **same, requested=asked, forecast=answer.value, reserve=answer.bound, basis=answer.bound_basis, kept=kept
    )
