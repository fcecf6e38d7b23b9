"""Recommends memory and run time of a job, for the prompt, the comment, commands and pages alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from jobsight_predictor.profile.forecast import further
from jobsight_predictor.question import Moment, Question
from jobsight_server.decision.evidence import ASKED_FOR, Resource, Shape, Similar
from jobsight_server.decision.rule import AGAIN, FEW, Decision
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.evidence import Evidences
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.forecasts.prediction import Prediction, SimilarUse
from jobsight_server.forecasts.request import job_question, read_jobs, shape_of
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import job_nodes

_KILLED_LAST = (
    'SELECT id FROM (SELECT id, profiled, failure FROM jobs WHERE cluster = ? AND "user" = ? AND application {} '
    "AND state = 'ended' ORDER BY \"end\" DESC LIMIT 40) latest WHERE failure IS NOT NULL AND NOT profiled"
)
"""Users and workflow engines submit again before a run has waited for its samples."""


_NODES_HELD = select(func.count()).where(job_nodes.c.run_id == bindparam("run"))


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request of the whole job; None is not requested. ``memory_bytes`` is the sum over its ``nodes``.

    Where the scheduler chooses the number of nodes, it is at most that of processors. ``gpus`` None is unknown.
    """

    processors: int = 1
    nodes: int | None = None
    memory_bytes: float | None = None
    walltime_s: float | None = None
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Forecasts by metric, and the decision on each request, of the whole job.

    The ``bound`` of an answer in ``ASKED_FOR`` is the recommendation, else the request; its ``attempts`` begin with
    that. ``is_named``: the job's application is known.
    """

    request: JobRequest
    answers: dict[str, Prediction]
    decisions: Mapping[Resource, Decision]
    is_named: bool = True

    @property
    def similar(self) -> Similar:
        """Return the similar runs that a text names: those behind the memory, or else behind the run time."""
        memory, runtime = (self.decisions[resource].similar for resource in ASKED_FOR)
        return memory if memory.rows else runtime

    @property
    def memory_is_virtual(self) -> bool:
        """Return whether the last of them requested address space."""
        rows = self.decisions["memory"].similar.rows
        return bool(rows and rows[0].is_virtual)

    def best(self, metric: Resource) -> float | None:
        """Return the recommendation to a user, or the job's request if that is best; None without data on similar
        jobs."""
        decision = self.decisions[metric]
        known = requested(metric, self.request) if decision.similar.known else None
        return decision.amount or decision.shorter or known

    def most(self, metric: Resource) -> float | None:
        """Return the largest use of similar jobs that is known exactly."""
        known = self.decisions[metric].similar.known
        return None if known is None or known.least is None else known.most


def plain_request(question: Question, gpus: int | None = None) -> JobRequest:
    """Return the whole job's request from a question, which has it per processor; an unknown number counts as 1."""
    shape = shape_of(question, gpus)
    return JobRequest(shape.processors, None, shape.memory_bytes or None, shape.walltime_s or None, gpus)


def recommend(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    question: Question,
    request: JobRequest,
    metrics: Sequence[str] | None = ASKED_FOR,
    moment: Moment = "submission",
    *,
    is_unproven: bool = False,
) -> Recommendation:
    """Recommend a job's request at submission, or at ``start`` if it waits already.

    ``question`` and ``request`` describe the same job. ``metrics``, with ``ASKED_FOR``, are those to forecast, None all
    that concern the user. An unknown number of processors counts as 1. ``is_unproven``: as in ``decide``.
    """
    asked = [(cluster, question, request)]
    (found,) = recommend_each(connection, reader, asked, metrics, moment, is_unproven=is_unproven)
    return found


def recommend_each(
    connection: Connection,
    reader: AnswerReader,
    jobs: Sequence[tuple[str, Question, JobRequest]],
    metrics: Sequence[str] | None = ASKED_FOR,
    moment: Moment = "submission",
    *,
    is_unproven: bool = False,
) -> list[Recommendation]:
    """Recommend requests of several jobs as ``recommend`` does, from what is read together."""
    requests = [
        ForecastRequest(cluster, question, metric, "job" if question.processors else "processor", moment)
        for cluster, question, _ in jobs
        for metric in metrics or (None,)
    ]
    answered: defaultdict[tuple[str | None, Question], dict[str, Prediction]] = defaultdict(dict)
    for asked, answer in reader.answered(connection, requests):
        answered[asked.cluster, asked.question][answer.metric] = answer
    evidence = _evidence(connection, reader, [(cluster, question) for cluster, question, _ in jobs])
    found = []
    for cluster, question, request in jobs:
        answers, decisions = dict(answered[cluster, question]), dict[Resource, Decision]()
        for metric in ASKED_FOR:
            decisions[metric], answers[metric] = _decided(
                metric, answers[metric], cluster, question, request, evidence, is_unproven=is_unproven
            )
        found.append(Recommendation(request, answers, decisions, question.application is not None))
    return found


def asked_as(connection: Connection, user: str, like: LastRun) -> tuple[Question, JobRequest]:
    """Return the question and the request of another job submitted like this one."""
    memory, walltime = like.requested_memory_bytes, like.requested_walltime_s
    subject = (user, like.name, like.queue, like.processors, memory, walltime, like.group, like.account)
    held = connection.scalar(_NODES_HELD, {"run": like.run_id})
    request = JobRequest(like.processors, held or None, memory, walltime, like.gpus or 0)
    return job_question(*subject, facts=like.facts), request


def predictions(connection: Connection, reader: AnswerReader, requests: Sequence[ForecastRequest]) -> list[Prediction]:
    """Return the answers of ``reader``; for described jobs with the decided reservation.

    A question about a user alone gets the forecast: the next job may be any.
    """
    answered = reader.answered(connection, requests)
    described = {
        (answer.cluster, asked.question): None
        for asked, answer in answered
        if answer.cluster is not None and answer.metric in ASKED_FOR and asked.question != Question(user=asked.user)
    }
    of_clusters = [(cluster, question) for cluster, question in described if cluster is not None]
    evidence = _evidence(connection, reader, of_clusters)
    decisions: dict[tuple[Any, ...], Decision] = {}  # both moments of a job with a request share one
    found = []
    for asked, answer in answered:
        question, cluster = asked.question, answer.cluster
        (metric,) = [name for name in ASKED_FOR if name == answer.metric] or (None,)
        if metric is not None and cluster is not None and (cluster, question) in described:
            request = plain_request(question, asked.gpus)
            key = metric, cluster, question, asked.gpus
            known = decisions.get(key) if requested(metric, request) else None
            decisions[key], answer = _decided(metric, answer, cluster, question, request, evidence, known)
        found.append(answer)
    return found


def _evidence(connection: Connection, reader: AnswerReader, jobs: Sequence[tuple[str, Question]]) -> Evidences:
    """Read the evidence for these jobs, with the kills of runs that still wait for their samples."""
    found = reader.evidence(connection, jobs)
    names = {(cluster, question.user or "", question.application) for cluster, question in jobs}
    killed = [
        run
        for cluster, user, application in names
        for (run,) in fetch(
            connection,
            _KILLED_LAST.format("IS NULL" if application is None else "= ?"),
            (cluster, user, *([] if application is None else [application])),
        )
    ]
    for job in sorted(read_jobs(connection, killed).values(), key=lambda job: job.end or 0.0) if killed else ():
        for resource in ASKED_FOR:
            found.learn_apart(job, resource)
    return found


def _decided(
    metric: Resource,
    answer: Prediction,
    cluster: str,
    question: Question,
    request: JobRequest,
    evidence: Evidences,
    known: Decision | None = None,
    *,
    is_unproven: bool = False,
) -> tuple[Decision, Prediction]:
    """Return the decision on a request, if it is not ``known``, and the answer with its reservation."""
    count = request.processors if answer.per == "processor" else 1
    whole, asked = answer.whole_job(request.processors), requested(metric, request)
    shape = Shape(
        request.processors, request.gpus, request.memory_bytes or 0.0, request.walltime_s or 0.0, question.facts
    )
    decision = known or evidence.decide(
        metric, cluster, question, shape, whole.bound, nodes=request.nodes, is_unproven=is_unproven
    )
    most = evidence.most(metric, cluster, request.nodes or request.processors)
    similar, uses = decision.similar, decision.similar.known
    used = None if uses is None or uses.least is None else (uses.least / count, uses.most / count)
    answer = msgspec.structs.replace(answer, similar=SimilarUse(similar.runs, *(used or (None, None))))
    forecast = None if whole.bound is None else min(whole.bound, most)
    first = decision.amount or asked or forecast
    if first is None:
        return decision, answer
    attempts: tuple[float, ...]
    if decision.then is not None:
        attempts = first, decision.then, min(AGAIN * decision.then, most)
    else:
        attempts = tuple([max(first, min(amount, most)) for amount in further(first, whole.attempts)])
    exceeds = None
    if similar.exact >= FEW:
        shares = [share for step, share in whole.need_steps if step <= first * (1.0 + 1e-9)]
        # The steps begin at one half; below, the chance is known only if all similar runs used more.
        is_too_little = uses is not None and uses.least is not None and uses.least > first
        exceeds = 1.0 - max(shares) if shares else 1.0 if is_too_little else None
    elif first == whole.bound and answer.n:
        exceeds = answer.exceed_probability
    is_limited = decision.amount is None and asked is not None and (whole.need or 0.0) > asked
    basis = answer.bound_basis if first == whole.bound else "request" if first == asked else "similar jobs"
    return decision, msgspec.structs.replace(
        answer,
        bound=first / count,
        bound_basis=basis,
        attempts=tuple(attempt / count for attempt in dict.fromkeys(attempts)),
        exceed_probability=exceeds,
        limited_by_request=is_limited,
    )


def requested(metric: Resource, request: JobRequest) -> float | None:
    """Return the memory or run time that a job requests."""
    return request.memory_bytes if metric == "memory" else request.walltime_s
