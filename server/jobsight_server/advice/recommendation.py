"""Recommends memory and run time of a job, for the prompt, the comment, commands and pages alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, func, select

from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Moment, Question
from jobsight_server.accounting.amounts import MIB, memory_text, time_text
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
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage.samples import memory_of_largest_nodes
from jobsight_server.storage.schema import job_nodes

ASKED_FOR = ("memory", "runtime")
"""Metrics that a job can request."""

STEPS = {"memory": float(MIB), "runtime": 60.0}
"""Units to round up to; every scheduler takes these."""

BEYOND_USE = 4.0
"""Upper limit where the request is too little, as a multiple of the use of similar jobs."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Forecasts by metric and the request to make, of the whole job, in whole MiB and minutes.

    ``memory_bytes`` or ``runtime_s`` is None without data on the user's jobs, or if the job's own request is best.
        ``enough_share``: probability that both are enough if memory and run time are independent; None if unknown.
    """

    request: JobRequest
    such_jobs: SuchJobs
    answers: dict[str, Prediction]
    memory_bytes: float | None
    runtime_s: float | None
    enough_share: float | None = None

    def amount(self, metric: str) -> float | None:
        """Return the memory or run time to ask for."""
        return self.memory_bytes if metric == "memory" else self.runtime_s

    def best(self, metric: str) -> float | None:
        """Return the same, or the job's own request where that is best; None without data on the user's jobs."""
        amount, answer = self.amount(metric), self.answers[metric]
        known = self.such_jobs.used(metric) is not None or (answer.user_jobs and answer.bound is not None)
        return _requested(metric, self.request) if amount is None and known else amount


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
    asked = {"memory": request.memory_bytes, "runtime": request.walltime_s}
    too_little = {
        metric: used
        for metric in ASKED_FOR
        if (used := such.used(metric)) is not None and 0.0 < (asked[metric] or 0.0) < used
    }
    best = dict(answers)
    if too_little:
        # A reservation never exceeds the request. Similar jobs needed more, so forecast with their request.
        enough = _asking_enough(question, such, request.processors, too_little)
        best |= _answers(connection, reader, cluster, enough, tuple(too_little), moment)
        best["memory"] = _within(best["memory"], most)
        wider = max(1.0, request.processors / (such.on_processors or request.processors))
        best |= {metric: _cut(best[metric], BEYOND_USE * wider * used) for metric, used in too_little.items()}
    found: dict[str, float | None] = {}
    for metric in ASKED_FOR:
        answer = best[metric]
        amount = answer.bound if answer.user_jobs or such.used(metric) is not None else None
        if metric == "memory" and such.memory_is_mixed:
            amount = None
        if amount is not None:
            rounded = math.ceil(amount / STEPS[metric] - 1e-9) * STEPS[metric]
            is_asked = amount * (1.0 - 1e-9) <= (asked[metric] or 0.0) <= max(rounded, amount)
            amount = None if is_asked else min(rounded, most) if metric == "memory" else rounded
        found[metric] = amount
    exceed = [best[metric].exceed_probability for metric in ASKED_FOR if found[metric] is not None]
    known = [chance for chance in exceed if chance is not None]
    share = math.prod(1.0 - chance for chance in known) if known and len(known) == len(exceed) else None
    return Recommendation(request, such, answers, found["memory"], found["runtime"], share)


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
    return msgspec.structs.replace(_cut(answer, most), attempts=attempts)


def _cut(answer: Prediction, most: float) -> Prediction:
    """Limit the bound to ``most``; its probability of being too little is then unknown."""
    if answer.bound is None or answer.bound <= most:
        return answer
    return msgspec.structs.replace(answer, bound=most, exceed_probability=None)


def _asking_enough(question: Question, such: SuchJobs, processors: int, too_little: Mapping[str, float]) -> Question:
    """Replace a request that is too little by the largest of similar jobs, or by none if that is too little as well."""
    if "memory" in too_little:
        most = such.most_requested_bytes
        is_enough = most is not None and most * processors > too_little["memory"]
        question = replace(question, requested_memory_bytes=most if is_enough else None)
    if "runtime" in too_little:
        most = such.most_requested_s
        is_enough = most is not None and most > too_little["runtime"]
        question = replace(question, requested_time_s=most if is_enough else None)
    return question


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

    ``attempts``: the reservation of each attempt, ``reserve`` first.
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
) -> Advice:
    """Advise on ``request``, of the same job as ``question``, in the words of PBS, of Slurm, or neither."""
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


def sentence(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write the recommendation, if it differs from the request, the use of similar jobs, and the request.

    ``memory`` formats bytes.
    """
    such, request = found.such_jobs, found.request
    sentences = [what_to_ask(found, memory), f"{_used(such, memory)}."]
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
    source = "" if found.such_jobs.jobs else ", as your other jobs suggest"
    share = found.enough_share
    enough = "" if share is None else f": enough for {_of_100(share)} of 100 similar jobs"
    return f"Ask for {' and '.join(amounts)}{source}{enough}."


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
