"""Advice on a request in words, and as lines that a user copies into a job script, for all surfaces that show it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from sqlalchemy import Connection, Row, select

from jobsight_predictor.question import level_fields
from jobsight_server.advice.recommendation import Recommendation, requested
from jobsight_server.advice.scheduler_words import (
    MINUTE_S,
    PbsRequest,
    RequestError,
    pbs_advice,
    slurm_advice,
)
from jobsight_server.decision.evidence import ASKED_FOR, Resource, Similar
from jobsight_server.decision.rule import Kept
from jobsight_server.forecasts.last_runs import LastRun
from jobsight_server.forecasts.prediction import Prediction
from jobsight_server.ground.amounts import MIB, clock_text, memory_text, size_text, time_text
from jobsight_server.ground.answers import Record
from jobsight_server.settings.declared import AccountingSource
from jobsight_server.storage.schema import accounting_files


def sentence(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write what to request, the use of similar jobs, why a request stays, and the job's request.

    ``memory`` formats requested bytes, as the scheduler takes them.
    """
    sentences = [what_to_ask(found, memory), _used(found), *_kept(found)]
    asked, missing = [], []
    texts = zip(ASKED_FOR, (memory, time_text), ("no memory request", "no time limit"), strict=True)
    for metric, write, nothing in texts:
        decision = found.decisions[metric]
        if decision.similar.known is None and decision.amount is None:
            continue
        if (amount := requested(metric, found.request)) is None:
            missing.append(nothing)
        else:
            asked.append(write(amount))
    phrases = [f"{verb} {' and '.join(of)}" for verb, of in (("requests", asked), ("has", missing)) if of]
    if phrases:
        sentences.append(f"This job {' and '.join(phrases)}.")
    return " ".join(filter(None, sentences))


def what_to_ask(found: Recommendation, memory: Callable[[float], str] = memory_text) -> str:
    """Write ``Request 420M and 12 min.``; empty if the job's own request is best."""
    amounts, then, estimates = [], [], []
    for metric, write in zip(ASKED_FOR, (memory, time_text), strict=True):
        decision, asked = found.decisions[metric], requested(metric, found.request)
        if (amount := decision.amount or decision.shorter) is not None:
            virtual = " of virtual memory" if metric == "memory" and found.memory_is_virtual else ""
            amounts.append(f"{write(amount)}{virtual}")
            if decision.then is not None and decision.similar.failed and amount > (asked or 0.0):
                then.append(write(decision.then))
            if decision.is_estimate:
                estimates.append(decision.similar)
    if not amounts:
        return ""
    next_time = f"; if that is not enough, {' and '.join(then)}" if then else ""
    why = f" {_why_estimated(estimates[0])}" if estimates else ""
    return f"Request {' and '.join(amounts)}{next_time}.{why}"


def _why_estimated(similar: Similar) -> str:
    if not similar.runs:
        return "No similar job is known, so treat this as an estimate from other jobs."
    if not similar.is_alike:
        return "Similar jobs had other numbers of processors, so treat this as an estimate."
    runs = f"Only {similar.exact} similar jobs were" if similar.exact > 1 else "At most one similar job was"
    return f"{runs} measured, so treat this as an estimate."


KEPT: dict[Kept, str] = {
    "not measured": "it is unknown what similar jobs use",
    "other requests": "the application's earlier jobs requested much more or less, or other GPUs or processors",
    "no application": "a job without a name may belong to any application",
    "few runs": "fewer than 3 similar jobs, in 2 batches, requested as much and were measured",
    "other processors": "no similar job had as many processors",
    "ran out": "a similar job with a lower request has just run out",
    "unproven": "a similar job was submitted just now, and how it ends is not known yet",
    "larger": "this job may be larger than all that are known",
    "enough requested": "no similar job that requested as much has run out",
    "as requested": "similar jobs need as much",
    "time": "a shorter one frees nothing by itself, and jobs that run past it are killed",
    "time not enforced": "a shorter one frees nothing by itself; limits are not enforced there, as far as logs show",
    "kept": "it should stay, by the job's comment or the site's settings",
}


def _kept(found: Recommendation) -> list[str]:
    """Write why a request is kept, or nothing recommended; empty without earlier jobs."""
    words: dict[Resource, str] = {"memory": "memory request", "runtime": "time limit"}
    why: dict[tuple[bool, str], list[str]] = {}
    for metric, decision in found.decisions.items():
        if decision.kept is None or decision.shorter is not None:
            continue
        if decision.similar.runs or decision.kept in ("other requests", "kept"):
            is_asked = requested(metric, found.request) is not None
            why.setdefault((is_asked, KEPT[decision.kept]), []).append(words[metric])
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


def pbs_memory_text(value: float) -> str:
    """Write memory as PBS takes it.

    >>> pbs_memory_text(616 * 2**20), pbs_memory_text(64 * 2**30)
    ('616mb', '64gb')
    """
    return f"{memory_text(value).lower()}b"


def _used(found: Recommendation) -> str:
    """Write the use of the similar runs: one number of runs, and what is known of each resource."""
    similar = found.similar
    if not similar.rows:
        is_said = any(one.amount or one.kept == "other requests" for one in found.decisions.values())
        return "" if is_said else "No similar job of yours has been measured yet."
    job = "similar job" if found.is_named else "job"
    subject = f"Your last {job if similar.runs == 1 else f'{similar.runs} {job}s'}{_on_processors(similar, found)}"
    of_memory, of_time = (found.decisions[metric].similar for metric in ASKED_FOR)
    used = [text for text in (_used_memory(of_memory), _ran(of_time)) if text]
    if of_memory.failed:
        of_all = of_memory.failed == of_memory.runs
        used.insert(1 if of_memory.known else 0, f"{'' if of_all else f'{of_memory.failed} '}ran out of memory")
    return f"{subject} {' and '.join(used) or 'gave no measurement'}."


def _used_memory(similar: Similar) -> str:
    known = similar.known
    if known is None:
        return ""
    amount, some = size_text(known.largest), ""
    if known.at_least > known.most:
        return f"used {f'at least {amount}' if similar.runs == 1 else f'up to {amount} or more'}"
    if similar.exact < similar.runs:
        some = f" ({similar.exact} known exactly)"
    return f"used {'at most ' if similar.runs > 1 else ''}{amount}{some}"


def _ran(similar: Similar) -> str:
    known, failed = similar.known, similar.failed
    if known is None or known.least is None:
        longest = max([row.failed_at for row in similar.rows], default=0.0)
        some = "" if similar.runs == 1 else f"{'all' if failed == similar.runs else failed} "
        return f"{some}{_killed(failed)} at {time_text(longest)}" if failed else ""
    if not failed:
        return f"ran {'at most ' if similar.runs > 1 else ''}{time_text(known.most)}"
    limit = time_text(max(row.failed_at for row in similar.rows))
    return f"{similar.exact} ended within {time_text(known.most)}, {failed} {_killed(failed)} at {limit}"


def _killed(jobs: int) -> str:
    return "was killed" if jobs == 1 else "were killed"


def _on_processors(similar: Similar, found: Recommendation) -> str:
    """Write their numbers of processors, empty if all of the application had as many as the job."""
    counts = {row.shape.processors for row in similar.rows}
    if not similar.has_other_counts and counts == {found.request.processors}:
        return ""
    least, most = min(counts), max(counts)
    plural = "s" if most > 1 else ""
    return f" on {least} processor{plural}" if least == most else f" on {least} to {most} processors"


Scheduler = Literal["slurm", "pbs", "gridengine", "condor", "lsf"]

SCHEDULERS: dict[str, Scheduler] = {
    "slurm": "slurm",
    "pbspro": "pbs",
    "torque": "pbs",
    "gridengine": "gridengine",
    "condor": "condor",
    "lsf": "lsf",
}
"""Scheduler by format of the accounting log; the other formats do not name one."""


def log_format(connection: Connection, sources: Iterable[AccountingSource], cluster: str) -> str | None:
    """Return the scheduler's format of the cluster's logs, by the settings or by the files read; None if not one."""
    files = accounting_files.c
    formats = {source.scheduler for source in sources if source.cluster == cluster} - {""}
    formats = formats or {*connection.scalars(select(files.log_format).where(files.cluster == cluster).distinct())}
    found = formats & SCHEDULERS.keys()
    return found.pop() if len(found) == 1 else None


def scheduler_of(connection: Connection, sources: Iterable[AccountingSource], cluster: str) -> Scheduler | None:
    """Return the scheduler of the cluster's logs; None if that is not one."""
    return SCHEDULERS.get(log_format(connection, sources, cluster) or "")


class AskLine(Record):
    """Lines of a job script, for one scheduler."""

    scheduler: Scheduler
    text: str


Like = LastRun | Row[Any]
"""A job, or its row of ``jobs``, with the form of its request: ``select`` or ``nodes``, the option for memory, GPUs."""


def lines_to_ask(
    found: Recommendation,
    scheduler: Scheduler | None,
    like: Like | None = None,
    metrics: Iterable[Resource] = ASKED_FOR,
) -> list[AskLine]:
    """Write the recommended memory and run time, or the job's own request where that is best, for ``scheduler``.

    Uses the form of ``like``, if given. For Slurm and PBS if the scheduler is None; empty without an amount.
    """
    memory, runtime = (found.best(metric) if metric in metrics else None for metric in ASKED_FOR)
    if memory is None and runtime is None:
        return []
    wanted: tuple[Scheduler, ...] = ("slurm", "pbs") if scheduler is None else (scheduler,)
    texts = [(name, "\n".join(_WRITERS[name](found, memory, runtime, like))) for name in wanted]
    return [AskLine(name, text) for name, text in texts if text]


def _slurm(
    advised: Recommendation, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write ``#SBATCH --mem=683M``, or the option that the job used, as sbatch takes only one, and the time limit."""
    request, word = advised.request, like and like.memory_word
    found = slurm_advice(request, memory_bytes, runtime_s)
    if memory_bytes is not None:
        per = {"mem-per-cpu": found.mem_per_cpu}
        if like is not None and like.gpus:
            per["mem-per-gpu"] = math.ceil(memory_bytes / like.gpus / MIB)
        option, amount = (word, per[word]) if word in per else ("mem", found.mem)
        yield f"#SBATCH --{option}={amount}M"
        if option == "mem" and (request.nodes or 1) > 1:
            yield f"# on each of {request.nodes} nodes"
    if found.time_limit is not None:
        yield f"#SBATCH --time={clock_text(found.time_limit * MINUTE_S)}"
    if memory_bytes is not None and request.memory_bytes is not None and word not in (option, "mem"):
        yield "# in place of any --mem-per-cpu or --mem-per-gpu"


def _pbs(
    advised: Recommendation, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write memory into the chunks of a ``select``: PBS rejects ``mem`` of the whole job beside it."""
    request = advised.request
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
    advised: Recommendation, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write ``h_vmem``, or the option that the job used, and ``h_rt``; per slot."""
    found = slurm_advice(advised.request, memory_bytes, runtime_s)
    if found.mem_per_cpu is not None:
        yield f"#$ -l {(like and like.memory_word) or 'h_vmem'}={found.mem_per_cpu}M"
    if found.time_limit is not None:
        yield f"#$ -l h_rt={found.time_limit // 60:02}:{found.time_limit % 60:02}:00"


def _condor(
    advised: Recommendation, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write ``request_memory``, and what to retry with if that is not enough; HTCondor's jobs have no time limit."""
    if memory_bytes is None:
        return
    yield f"request_memory = {math.ceil(memory_bytes / MIB)}M"
    then = advised.decisions["memory"].then
    if then is not None and then > memory_bytes:
        yield f"retry_request_memory = {math.ceil(then / MIB)}M"


def _lsf(
    advised: Recommendation, memory_bytes: float | None, runtime_s: float | None, like: Like | None
) -> Iterator[str]:
    """Write the limits ``-M`` and ``-W``, the reservation if the job had one, and the expected run time, ``-We``."""
    if memory_bytes is not None:
        amount, is_parallel = f"{math.ceil(memory_bytes / MIB)}MB", advised.request.processors > 1
        yield f"#BSUB -M {amount}"
        if like is not None and like.memory_word == "rusage":
            yield f'#BSUB -R "rusage[mem={amount}{"/job" if is_parallel else ""}]"'
        if is_parallel:
            yield "# of the whole job: divide it where LSF limits each process or host"
    if runtime_s is not None:
        limit, expected = math.ceil(runtime_s / MINUTE_S), advised.answers.get("runtime")
        yield f"#BSUB -W {limit // 60}:{limit % 60:02}"
        if expected is not None and expected.value and expected.value < runtime_s:
            minutes = math.ceil(expected.value / MINUTE_S)
            yield f"#BSUB -We {minutes // 60}:{minutes % 60:02}"


_WRITERS = {"slurm": _slurm, "pbs": _pbs, "gridengine": _gridengine, "condor": _condor, "lsf": _lsf}
