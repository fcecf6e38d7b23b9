"""Advice on a request in words, and as lines that a user copies into a job script, for all surfaces that show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from sqlalchemy import Connection, Row, select

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.profile.groups import level_fields
from jobsight_predictor.profile.reserve import Basis
from jobsight_predictor.question import Question
from jobsight_server.accounting.amounts import MIB, clock_text, memory_text, size_text, time_text
from jobsight_server.accounting.runs import FAILED_METRIC
from jobsight_server.advice.recommendation import JobRequest, Recommendation, recommend, requested
from jobsight_server.advice.scheduler_words import (
    MINUTE_S,
    PbsAdvice,
    PbsRequest,
    RequestError,
    SlurmAdvice,
    pbs_advice,
    slurm_advice,
)
from jobsight_server.forecasts import AnswerReader
from jobsight_server.forecasts.decision import ASKED_FOR, Enough, Kept, Resource
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.forecasts.reader import SeriesKey, read_answers
from jobsight_server.forecasts.record import Metric, Record, Share
from jobsight_server.forecasts.such_jobs import SuchJob, SuchJobs
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import accounting_files

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
    such, (memory, runtime) = found.such_jobs, (found.decisions[metric].amount for metric in ASKED_FOR)
    used_bytes, ran_s = map(such.most, ASKED_FOR)
    return Advice(
        cluster=cluster,
        user=question.user or "",
        text=sentence(found, memory_text if pbs is None else pbs_memory_text),
        notable=_is_notable(request.memory_bytes, memory, used_bytes)
        or _is_notable(request.walltime_s, runtime, ran_s),
        such_jobs=such.jobs,
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
        pbs=None if pbs is None else pbs_advice(pbs, request, None if such.memory_is_virtual else memory, runtime),
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


def sentence(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write the recommendation, if it differs from the request, the use of similar jobs, and the request.

    ``memory`` formats requested bytes, as the scheduler takes them.
    """
    such, request, advised = found.such_jobs, found.request, found.decisions
    sentences = [what_to_ask(found, memory), f"{_used(such)}.", *_kept(found)]
    asked, missing = [], []
    texts = zip(ASKED_FOR, (memory, time_text), ("no memory request", "no time limit"), strict=True)
    for metric, write, nothing in texts:
        if not such.used(metric) and advised[metric].amount is None:
            continue
        if (amount := requested(metric, request)) is None:
            missing.append(nothing)
        else:
            asked.append(write(amount))
    phrases = [f"{verb} {' and '.join(of)}" for verb, of in (("requests", asked), ("has", missing)) if of]
    if phrases:
        sentences.append(f"This job {' and '.join(phrases)}.")
    return " ".join(filter(None, sentences))


def what_to_ask(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write ``Ask for 402M and 12 min: enough for all 11 similar jobs.``; empty if the job's own request is best."""
    virtual = " of virtual memory" if found.such_jobs.memory_is_virtual else ""
    memory_bytes, runtime_s = (found.decisions[metric].amount for metric in ASKED_FOR)
    amounts = [] if memory_bytes is None else [f"{memory(memory_bytes)}{virtual}"]
    amounts += [] if runtime_s is None else [time_text(runtime_s)]
    if not amounts:
        return ""
    kind = "similar jobs" if found.such_jobs.is_named else "jobs of yours"
    enough = "" if found.enough is None else f": enough for {how_many(found.enough)} {kind}"
    sources = {decision.estimated_from for decision in found.decisions.values() if decision.amount is not None}
    if "facts" in sources:
        enough = ", estimated from jobs with similar facts"
    elif "other processors" in sources:
        enough = f", estimated from jobs{found.such_jobs.on_processors}"
    elif sources != {None}:
        jobs = min(found.decisions[metric].similar for metric in ASKED_FOR if found.decisions[metric].estimated_from)
        together = " submitted together" if "one burst" in sources else ""
        enough = f", estimated from only {jobs} {kind if jobs > 1 else 'similar job'}{together}"
    steps = [f"{time_text(limit)}: {how_many(jobs)}" for limit, jobs in found.decisions["runtime"].steps]
    of_time = f" Run time {'; '.join(steps)}." if steps else ""
    return f"Ask for {' and '.join(amounts)}{enough}.{of_time}"


KEPT: dict[Kept, str] = {
    "not measured": "the use of similar jobs is unknown, or not comparable",
    "no forecast": "there is no forecast until the model is trained",
    "no application": "a job without a name may belong to any application",
    "few jobs": "fewer than 5 similar jobs have been measured",
    "one burst": "the similar jobs were submitted together",
    "other processors": "no similar job had as many processors",
    "forecast higher": "the forecast allows for a higher need",
    "enough requested": "at most one in 20 similar jobs needed more",
    "as requested": "similar jobs need as much",
}


def _kept(found: Recommendation) -> list[str]:
    """Write why a request is kept, or nothing recommended; empty without similar jobs."""
    words: dict[Resource, str] = {"memory": "memory request", "runtime": "time limit"}
    why: dict[tuple[bool, str], list[str]] = {}
    for metric, decision in found.decisions.items():
        if decision.kept is not None:
            is_asked = requested(metric, found.request) is not None
            why.setdefault((is_asked, KEPT[decision.kept]), []).append(words[metric])
    if not found.such_jobs.jobs:
        return []
    return [
        f"{'Keep the' if is_asked else 'There is no advice on a'} {' and '.join(names)}: {reason}."
        for (is_asked, reason), names in why.items()
    ]


def similar_use(answer: Prediction) -> tuple[float, float] | None:
    """Return the least and most that the similar jobs used: those behind the decision, else those of the forecast.

    None if the forecast is that of other jobs: of other users, or of other applications.
    """
    if (similar := answer.similar) is not None:
        return None if similar.least is None or similar.most is None else (similar.least, similar.most)
    is_similar = {"user", "application"} <= set(level_fields(answer.level or ""))
    return (min(answer.last_values), max(answer.last_values)) if is_similar and answer.last_values else None


def how_many(enough: Enough) -> str:
    """Write the jobs for which a recommendation was enough.

    >>> how_many(Enough(11, 11)), how_many(Enough(97, 100))
    ('all 11', '97 of 100')
    """
    return f"all {enough.jobs}" if enough.within == enough.jobs else f"{enough.within} of {enough.jobs}"


def pbs_memory_text(value: float) -> str:
    """Write memory as PBS takes it.

    >>> pbs_memory_text(616 * 2**20), pbs_memory_text(64 * 2**30)
    ('616mb', '64gb')
    """
    return f"{memory_text(value).lower()}b"


def _used(such: SuchJobs) -> str:
    job = "similar job" if such.is_named else "job"
    if not such.jobs:
        return f"No {job} of yours has been measured yet"
    subject = f"Your last {job if such.jobs == 1 else f'{such.jobs} {job}s'}{such.on_processors}"
    used = []
    if (memory := such.most("memory")) is not None:
        at_most = "" if such.jobs == 1 else "at most "
        measured = len(such.used("memory"))
        of = f" ({measured} measured)" if measured < such.jobs else ""
        used.append(f"used {at_most}{size_text(memory)}{of}")
    if (runtime := such.most("runtime")) is not None:
        used.append(f"ran {'' if such.jobs == 1 else 'at most '}{time_text(runtime)}")
    failed = [
        f"{count if such.jobs > 1 else 'it'} ran out of {what}"
        for what in FAILED_METRIC
        if (count := such.ran_out(what))
    ]
    if not used:
        return f"{subject}: {', '.join(failed)}"
    return f"{subject} {' and '.join(used)}" + (f" ({', '.join(failed)})" if failed else "")


Scheduler = Literal["slurm", "pbs", "gridengine"]

SCHEDULERS: dict[str, Scheduler] = {
    "slurm": "slurm",
    "pbspro": "pbs",
    "torque": "pbs",
    "gridengine": "gridengine",
}
"""Scheduler by format of the accounting log; the other formats do not name one."""


def scheduler_of(connection: Connection, sources: Iterable[AccountingSource], cluster: str) -> Scheduler | None:
    """Return the scheduler of the cluster's logs, by the settings or by the files read; None if that is not one."""
    files = accounting_files.c
    formats = {"slurm" if source.sacct else source.format for source in sources if source.cluster == cluster} - {None}
    formats = formats or {*connection.scalars(select(files.log_format).where(files.cluster == cluster).distinct())}
    found = {SCHEDULERS[name] for name in formats if name in SCHEDULERS}
    return found.pop() if len(found) == 1 else None


class AskLine(Record):
    """Lines of a job script, for one scheduler."""

    scheduler: Scheduler
    text: str


Like = SuchJob | Row[Any]
"""A job, or its row of ``jobs``, with the form of its request: ``select`` or ``nodes``, the option for memory, GPUs."""


def lines_to_ask(
    found: Recommendation,
    scheduler: Scheduler | None,
    like: Like | None = None,
    metrics: Iterable[Resource] = ASKED_FOR,
) -> list[AskLine]:
    """Write the recommended memory and run time, or the job's own request where that is best, for ``scheduler``.

    Uses the form of ``like``, by default the last similar job. For Slurm and PBS if the scheduler is None; empty
    without an amount.
    """
    memory, runtime = (found.best(metric) if metric in metrics else None for metric in ASKED_FOR)
    if memory is None and runtime is None:
        return []
    if like is None and found.such_jobs.runs:
        like = found.such_jobs.runs[0]
    wanted: tuple[Scheduler, ...] = ("slurm", "pbs") if scheduler is None else (scheduler,)
    write = {"slurm": _slurm, "pbs": _pbs, "gridengine": _gridengine}
    return [AskLine(name, "\n".join(write[name](found.request, memory, runtime, like))) for name in wanted]


def _slurm(
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write ``#SBATCH --mem=683M``, or the option that the job used, as sbatch takes only one, and the time limit."""
    found, word = slurm_advice(request, memory_bytes, runtime_s), like and like.memory_word
    if memory_bytes is not None:
        per = {"mem-per-cpu": found.mem_per_cpu}
        if like is not None and like.gpus:
            per["mem-per-gpu"] = math.ceil(memory_bytes / like.gpus / MIB)
        option, amount = (word, per[word]) if word in per else ("mem", found.mem)
        yield f"#SBATCH --{option}={amount}M"
    if found.time_limit is not None:
        yield f"#SBATCH --time={clock_text(found.time_limit * MINUTE_S)}"
    if memory_bytes is not None and request.memory_bytes is not None and word not in (option, "mem"):
        yield "# in place of any --mem-per-cpu or --mem-per-gpu"


def _pbs(request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Like | None) -> Iterator[str]:
    """Write memory into the chunks of a ``select``: PBS rejects ``mem`` of the whole job beside it."""
    nodes, word = (None, None) if like is None else (like.requested_nodes, like.memory_word)
    # ``nodes=2:ppn=8`` is TORQUE's; a select names resources with a value, such as ncpus.
    select = nodes if nodes is not None and "ncpus=" in nodes else None
    try:
        found = pbs_advice(PbsRequest(select=select), request, memory_bytes, runtime_s)
    except RequestError:  # unreadable; the user can split the memory
        select, found = None, pbs_advice(PbsRequest(), request, memory_bytes, runtime_s)
    if word in ("pmem", "vmem", "pvmem") and memory_bytes is not None:
        yield f"#PBS -l {word}={found.mem if word == 'vmem' else found.pmem}"
    elif found.select is not None:
        yield f"#PBS -l select={found.select}"
    elif found.mem is not None:
        yield f"#PBS -l mem={found.mem}"
    if found.walltime is not None:
        yield f"#PBS -l walltime={found.walltime}"


def _gridengine(
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write ``h_vmem``, or the option that the job used, and ``h_rt``; per slot."""
    found = slurm_advice(request, memory_bytes, runtime_s)
    if found.mem_per_cpu is not None:
        yield f"#$ -l {(like and like.memory_word) or 'h_vmem'}={found.mem_per_cpu}M"
    if found.time_limit is not None:
        yield f"#$ -l h_rt={found.time_limit // 60:02}:{found.time_limit % 60:02}:00"
