"""Recommends memory and run time of a job, for the prompt, the comment, commands and pages alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median_low

import msgspec
from sqlalchemy import Connection, func, select

from jobsight_predictor.profile.forecast import further
from jobsight_predictor.question import Moment, Question
from jobsight_server.accounting.amounts import MIB
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.decision import ASKED_FOR, STEPS, Decision, Enough, Need, Resource, decide, together
from jobsight_server.forecasts.prediction import Prediction, SimilarUse, read_prediction, whole_job
from jobsight_server.forecasts.request import WHOLE, job_question
from jobsight_server.forecasts.such_jobs import SuchJob, SuchJobs, last_runs, such_jobs
from jobsight_server.storage.clusters import memory_of_largest_nodes
from jobsight_server.storage.schema import job_nodes

_USERS_KEPT = 100  # users whose last runs are cached while many questions are answered


@dataclass(frozen=True, slots=True)
class JobRequest:
    """The request of the whole job; None is not requested. ``memory_bytes`` is the sum over its ``nodes``.

    Where the scheduler chooses the number of nodes, it is at most that of processors.
    """

    processors: int = 1
    nodes: int | None = None
    memory_bytes: float | None = None
    walltime_s: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Forecasts by metric, and the decision on each request, of the whole job, in whole MiB and minutes.

    The ``bound`` of an answer in ``ASKED_FOR`` is the recommendation, else the request; its ``attempts`` begin with
    that. ``enough``: the jobs for which the recommendations are enough; None if unknown.
    """

    request: JobRequest
    such_jobs: SuchJobs
    answers: dict[str, Prediction]
    decisions: Mapping[Resource, Decision]
    enough: Enough | None = None

    def best(self, metric: Resource) -> float | None:
        """Return the recommendation, or the job's request if that is best; None without data on similar jobs."""
        decision = self.decisions[metric]
        return decision.amount or (requested(metric, self.request) if decision.similar else None)


def plain_request(question: Question) -> JobRequest:
    """Return the whole job's request from a question, which has it per processor; an unknown number counts as 1."""
    processors = question.processors or 1
    memory = question.requested_memory_bytes
    whole = None if memory is None else memory * processors
    return JobRequest(processors, None, whole, question.requested_time_s)


def recommend(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    question: Question,
    request: JobRequest,
    metrics: Sequence[str] | None = ASKED_FOR,
    runs: Sequence[SuchJob] | None = None,
    moment: Moment = "submission",
) -> Recommendation:
    """Recommend a job's request at submission, or at ``start`` if it waits already.

    ``question`` and ``request`` describe the same job. ``metrics``, with ``ASKED_FOR``, are those to forecast, None all
    that concern the user; ``runs`` the user's last ones, if already read. An unknown number of processors counts as 1.
    """
    runs = last_runs(connection, cluster, question.user or "", question.application) if runs is None else runs
    such = such_jobs(runs, question, request.processors)
    per = "job" if question.processors else "processor"
    requests = [ForecastRequest(cluster, question, metric, per, moment) for metric in metrics or (None,)]
    answers = {answer.metric: answer for answer in reader.answers(connection, requests)}
    most = _most(memory_of_largest_nodes(connection).get(cluster), request)
    decisions: dict[Resource, Decision] = {}
    for metric in ASKED_FOR:
        decisions[metric], answers[metric] = _decided(metric, answers[metric], request, such, most[metric])
    return Recommendation(request, such, answers, decisions, together(decisions, such.uses))


def recommend_as_last(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    user: str,
    like: SuchJob,
    runs: Sequence[SuchJob] | None = None,
    metrics: Sequence[str] | None = ASKED_FOR,
) -> Recommendation:
    """Recommend for another job submitted like this one; ``metrics`` and ``runs`` as in ``recommend``."""
    memory, walltime = like.requested_memory_bytes, like.requested_walltime_s
    subject = (user, like.name, like.queue, like.processors, memory, walltime, like.group, like.account)
    question = job_question(*subject, facts=like.facts)
    held = connection.scalar(select(func.count()).where(job_nodes.c.run_id == like.run_id))
    request = JobRequest(like.processors, held or None, memory, walltime)
    return recommend(connection, reader, cluster, question, request, metrics, runs)


def predictions(connection: Connection, reader: AnswerReader, requests: Sequence[ForecastRequest]) -> list[str]:
    """Return the answers of ``reader`` as JSON; for described jobs with the decided reservation.

    A question about a user alone gets the forecast: the next job may be any.
    """
    largest = memory_of_largest_nodes(connection)

    @lru_cache(_USERS_KEPT)
    def runs_of(cluster: str, user: str) -> list[SuchJob]:
        return last_runs(connection, cluster, user)

    @lru_cache(1)  # memory and run time of a question follow each other
    def such_as(cluster: str, question: Question) -> SuchJobs:
        return such_jobs(runs_of(cluster, question.user or ""), question, plain_request(question).processors)

    found = []
    for asked, text in reader.asked_texts(connection, requests):
        question, cluster = asked.question, asked.cluster
        (metric,) = [name for name in ASKED_FOR if name == asked.metric] or (None,)
        if metric is not None and cluster is not None and question != Question(user=question.user):
            request, such = plain_request(question), such_as(cluster, question)
            most = _most(largest.get(cluster), request)[metric]
            _, answer = _decided(metric, read_prediction(text), request, such, most)
            text = msgspec.json.encode(answer).decode()
        found.append(text)
    return found


def answers_to(
    connection: Connection, reader: AnswerReader, requests: Iterable[ForecastRequest]
) -> dict[ForecastRequest, Prediction]:
    """Return the same as records, for requests that name cluster and metric; equal ones are answered once."""
    distinct = list(dict.fromkeys(requests))
    return dict(zip(distinct, map(read_prediction, predictions(connection, reader, distinct)), strict=True))


def _decided(
    metric: Resource, answer: Prediction, request: JobRequest, such: SuchJobs, most: float
) -> tuple[Decision, Prediction]:
    """Return the decision on a request, at most ``most``, and the answer with its reservation."""
    count = request.processors if answer.per == "processor" and metric not in WHOLE else 1
    whole, asked = whole_job(answer, metric, count), requested(metric, request)
    need = Need(whole.need, whole.need_steps, whole.bound_basis == "facts")
    decision = decide(metric, asked, such.uses[metric], need, STEPS[metric], most, is_named=such.is_named)
    used = [amount / count for amount in such.used(metric)] if decision.similar else []
    similar = SimilarUse(decision.similar, min(used, default=None), max(used, default=None))
    answer = msgspec.structs.replace(answer, similar=similar)
    if used and asked and (decision.amount or 0.0) > asked and (answer.value or 0.0) < min(used):
        # Cut at a request that all similar jobs exceed.
        answer = msgspec.structs.replace(answer, value=median_low(used), probability=None)
    forecast = None if whole.bound is None else min(whole.bound, most)
    first = decision.amount or asked or forecast
    if first is None:
        return decision, answer
    attempts = tuple(dict.fromkeys(max(first, min(amount, most)) for amount in further(first, whole.attempts)))
    exceeds = answer.exceed_probability if first == whole.bound else None
    if decision.enough is not None:
        exceeds = 1.0 - decision.enough
    is_limited = decision.amount is None and asked is not None and (whole.need or 0.0) > asked
    basis = answer.bound_basis if first == whole.bound else "request" if first == asked else "similar jobs"
    return decision, msgspec.structs.replace(
        answer,
        bound=first / count,
        bound_basis=basis,
        attempts=tuple(attempt / count for attempt in attempts),
        exceed_probability=exceeds,
        limited_by_request=is_limited,
    )


def requested(metric: Resource, request: JobRequest) -> float | None:
    """Return the memory or run time that a job requests."""
    return request.memory_bytes if metric == "memory" else request.walltime_s


def _most(largest: int | None, request: JobRequest) -> dict[Resource, float]:
    """Return the memory of the job's nodes if each is the cluster's ``largest``; inf if no agent reports it.

    Without a number of nodes, each processor may be on a separate node.
    """
    memory = math.inf if largest is None else float(largest // MIB * MIB) * (request.nodes or request.processors)
    return {"memory": memory, "runtime": math.inf}
