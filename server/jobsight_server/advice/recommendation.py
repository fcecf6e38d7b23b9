"""Recommends memory and run time of a job, for the prompt, the comment, commands and pages alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, func, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Moment, Question
from jobsight_server.accounting.amounts import MIB, memory_text, time_text
from jobsight_server.advice.decision import Decision, Kept, Need, Resource, decide, together
from jobsight_server.advice.scheduler_words import (
    JobRequest,
    PbsAdvice,
    PbsRequest,
    SlurmAdvice,
    pbs_advice,
    slurm_advice,
)
from jobsight_server.advice.such_jobs import SuchJob, SuchJobs, last_runs, such_jobs
from jobsight_server.forecasts import AnswerReader, ForecastRequest
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.reader import SeriesKey, read_answers
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage.samples import memory_of_largest_nodes
from jobsight_server.storage.schema import job_nodes

ASKED_FOR: tuple[Resource, ...] = ("memory", "runtime")
"""Metrics that a job can request."""

STEPS: Mapping[Resource, float] = {"memory": float(MIB), "runtime": 60.0}
"""Units to round up to; every scheduler takes these."""

APART = 1.05
"""Factor by which the next attempt asks for more, at least."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Forecasts by metric, and the decision on each request, of the whole job, in whole MiB and minutes.

    ``enough_share``: probability that what is recommended is enough, if memory and run time are independent; None if
    unknown.
    """

    request: JobRequest
    such_jobs: SuchJobs
    answers: dict[str, Prediction]
    decisions: Mapping[Resource, Decision]
    enough_share: float | None = None

    @property
    def memory_bytes(self) -> float | None:
        """Memory to ask for; None where the job's own request, or none, is best."""
        return self.decisions["memory"].amount

    @property
    def runtime_s(self) -> float | None:
        """Run time to ask for; None where the job's own request, or none, is best."""
        return self.decisions["runtime"].amount

    def best(self, metric: Resource) -> float | None:
        """Return what to ask for, or the job's own request where that is best; None without data on similar jobs."""
        decision = self.decisions[metric]
        return decision.amount or (_requested(metric, self.request) if decision.similar else None)

    def attempts(self, metric: Resource) -> tuple[float, ...]:
        """Return what to reserve at each attempt, ascending: the request or the forecast where nothing is advised."""
        first = self.best(metric) or _requested(metric, self.request) or self.answers[metric].bound
        if first is None:
            return ()
        more = tuple(amount for amount in self.answers[metric].attempts if amount > APART * first)
        return (first, *more) if more else (first, 2.0 * first)


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
    """Recommend what a job should request at its submission, or at its ``start`` if it waits already.

    ``question`` and ``request`` describe the same job. ``metrics``, with ``ASKED_FOR``, are those to forecast, None all
    that concern the user; ``runs`` the user's last ones, if already read. An unknown number of processors counts as 1.
    """
    runs = last_runs(connection, cluster, question.user or "") if runs is None else runs
    such = such_jobs(runs, question, request.processors)
    answers = _answers(connection, reader, cluster, question, metrics, moment)
    most = _memory_of_nodes(connection, cluster, request)
    answers["memory"] = _within(answers["memory"], most)
    asked: dict[Resource, float | None] = {"memory": request.memory_bytes, "runtime": request.walltime_s}
    decisions = {
        metric: decide(
            metric,
            requested,
            such.uses[metric],
            Need(answer.need, answer.need_steps, answer.bound_basis == "facts"),
            STEPS[metric],
            most if metric == "memory" else math.inf,
            is_named=question.application is not None,
        )
        for metric, requested in asked.items()
        for answer in [answers[metric]]
    }
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


def _within(answer: Prediction, most: float) -> Prediction:
    """Limit the bound and the attempts to ``most``, all memory of the job's nodes."""
    attempts = tuple(dict.fromkeys(min(attempt, most) for attempt in answer.attempts))
    answer = msgspec.structs.replace(answer, attempts=attempts)
    if answer.bound is None or answer.bound <= most:
        return answer
    return msgspec.structs.replace(answer, bound=most, exceed_probability=None)


def _answers(
    connection: Connection,
    reader: AnswerReader,
    cluster: str,
    question: Question,
    metrics: Sequence[str] | None,
    moment: Moment,
) -> dict[str, Prediction]:
    """Forecast the whole job; by metric."""
    per = "job" if question.processors else "processor"
    requests = [ForecastRequest(cluster, question, metric, per, moment) for metric in metrics or (None,)]
    return {answer.metric: answer for answer in reader.answers(connection, requests)}


def _memory_of_nodes(connection: Connection, cluster: str, request: JobRequest) -> float:
    """Return the memory of the job's nodes if each is the cluster's largest; inf if no agent reports it.

    Without a number of nodes, each processor may be on a node of its own.
    """
    largest = memory_of_largest_nodes(connection).get(cluster)
    return math.inf if largest is None else float(largest // MIB * MIB) * (request.nodes or request.processors)


WASTEFUL = 2.0
"""Notify the user of a request this many times the recommendation, or the use of similar jobs."""


class WholeJobForecast(Record):
    """Request, expected use and reservation of the whole job in one metric; without a forecast, the reason.

    ``reserve`` is what to request: what is recommended, or the request itself where it is ``kept``, for that reason.
    ``attempts``: what to request at each attempt, ``reserve`` first.
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
    similar jobs counts. ``slurm`` and ``pbs`` are the recommendation in the words of the question.
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
    gpus: int | None = None,
) -> Advice:
    """Advise on ``request``, of the same job as ``question``, in the words of PBS, of Slurm, or neither.

    ``gpus``: requested ones; None is unknown.
    """
    of_gpus = _metrics_of_gpus(connection, cluster, question.user or "", gpus)
    found = recommend(connection, reader, cluster, question, request, (*ASKED_FOR, *of_gpus))
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
        forecasts=[
            *(_forecast(found, metric) for metric in ASKED_FOR),
            *(_forecast_of_gpus(found.answers[metric], gpus) for metric in of_gpus),
        ],
        slurm=slurm_advice(request, memory, runtime) if slurm else None,
        # PBS's words in an answer are of resident memory.
        pbs=None if pbs is None else pbs_advice(pbs, request, None if such.memory_is_virtual else memory, runtime),
    )


def _is_notable(asked: float | None, recommended: float | None, used: float | None) -> bool:
    if asked is None or used is None:
        return False
    enough = used if recommended is None else recommended
    return not enough <= asked < WASTEFUL * enough


def _requested(metric: str, request: JobRequest) -> float | None:
    return request.memory_bytes if metric == "memory" else request.walltime_s


def _forecast(found: Recommendation, metric: Resource) -> WholeJobForecast:
    answer, attempts = found.answers[metric], found.attempts(metric)
    return WholeJobForecast(
        metric=answer.metric,
        unit=answer.unit,
        requested=_requested(metric, found.request),
        forecast=answer.value,
        probability=answer.probability,
        reserve=attempts[0] if attempts else None,
        attempts=attempts,
        basis=answer.bound_basis,
        level=answer.level,
        n=answer.n,
        kept=found.decisions[metric].kept,
        reason=answer.reason,
    )


def _metrics_of_gpus(connection: Connection, cluster: str, user: str, gpus: int | None) -> list[str]:
    """Return those to forecast: all for a job with GPUs; where that is unknown, those that the user's jobs had."""
    names = [name for name, metric in METRICS.items() if metric.of_gpus]
    if gpus is None:
        used = read_answers(connection, [SeriesKey(cluster, user, name) for name in names])
        return [name for name in names if SeriesKey(cluster, user, name) in used]
    return names if gpus else []


def _forecast_of_gpus(answer: Prediction, gpus: int | None) -> WholeJobForecast:
    """Return the forecast of what jobs do not request, or of GPUs, of which no other number is recommended."""
    return WholeJobForecast(
        metric=answer.metric,
        unit=answer.unit,
        requested=gpus if answer.metric == "gpu_utilisation" else None,
        forecast=answer.value,
        probability=answer.probability,
        reserve=answer.bound,
        attempts=answer.attempts,
        basis=answer.bound_basis,
        level=answer.level,
        n=answer.n,
        kept=None,
        reason=answer.reason,
    )


def sentence(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write the recommendation, if it differs from the request, the use of similar jobs, and the request.

    ``memory`` formats bytes.
    """
    such, request = found.such_jobs, found.request
    sentences = [what_to_ask(found, memory), f"{_used(such, memory)}.", *_kept(found)]
    requested, missing = [], []
    if such.memory_bytes is not None or found.memory_bytes is not None:
        if request.memory_bytes is None:
            missing.append("no memory request")
        else:
            requested.append(memory(request.memory_bytes))
    if such.runtime_s is not None or found.runtime_s is not None:
        if request.walltime_s is None:
            missing.append("no time limit")
        else:
            requested.append(time_text(request.walltime_s))
    phrases = [f"{verb} {' and '.join(of)}" for verb, of in (("requests", requested), ("has", missing)) if of]
    if phrases:
        sentences.append(f"This job {' and '.join(phrases)}.")
    return " ".join(filter(None, sentences))


def what_to_ask(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write ``Ask for 402M and 12 min: enough for 96 of 100 similar jobs.``; empty if the job's own request is best."""
    kind = " of virtual memory" if found.such_jobs.memory_is_virtual else ""
    amounts = [] if found.memory_bytes is None else [f"{memory(found.memory_bytes)}{kind}"]
    amounts += [] if found.runtime_s is None else [time_text(found.runtime_s)]
    if not amounts:
        return ""
    share = found.enough_share
    enough = "" if share is None else f": enough for {_of_100(share)} of 100 similar jobs"
    return f"Ask for {' and '.join(amounts)}{enough}."


KEPT = {
    "not measured": "the use of similar jobs was not measured",
    "no application": "the job has no name, so similar jobs are unknown",
    "few jobs": "fewer than 5 similar jobs have been measured",
    "one burst": "the similar jobs were submitted together",
    "forecast higher": "the forecast is higher than what similar jobs used",
    "enough requested": "no similar job came near it",
}


def _kept(found: Recommendation) -> list[str]:
    """Write why a request is kept; nothing where it fits, or where there is no similar job."""
    words: dict[Resource, str] = {"memory": "memory request", "runtime": "time limit"}
    why: dict[str, list[str]] = {}
    for metric, decision in found.decisions.items():
        if decision.kept in KEPT and _requested(metric, found.request) is not None:
            why.setdefault(KEPT[decision.kept], []).append(words[metric])
    if not found.such_jobs.jobs:
        return []
    return [f"Keep the {' and '.join(requests)}: {reason}." for reason, requests in why.items()]


def _of_100(share: float) -> str:
    return f"{min(99, math.floor(100.0 * share))}"


def pbs_memory_text(value: float) -> str:
    """Write memory as PBS takes it.

    >>> pbs_memory_text(616 * 2**20), pbs_memory_text(64 * 2**30)
    ('616mb', '64gb')
    """
    return f"{memory_text(value).lower()}b"


def _used(such: SuchJobs, memory: Callable[[float], str]) -> str:
    if not such.jobs:
        return "No similar job of yours has been measured yet"
    subject = "Your last similar job" if such.jobs == 1 else f"Your last {such.jobs} similar jobs"
    used = []
    if such.memory_bytes is not None:
        at_most = "" if such.jobs == 1 else "at most "
        on = "" if such.on_processors is None else f" on {such.on_processors} processors"
        of = f" ({such.with_memory} measured)" if such.with_memory < such.jobs else ""
        used.append(f"used {at_most}{memory(such.memory_bytes)}{on}{of}")
    if such.runtime_s is not None:
        used.append(f"ran {'' if such.jobs == 1 else 'at most '}{time_text(such.runtime_s)}")
    failed = [
        f"{count if such.jobs > 1 else 'it'} ran out of {what}"
        for count, what in ((such.out_of_memory, "memory"), (such.out_of_time, "time"))
        if count
    ]
    if not used:
        return f"{subject}: {', '.join(failed)}"
    return f"{subject} {' and '.join(used)}" + (f" ({', '.join(failed)})" if failed else "")
