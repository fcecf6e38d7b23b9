"""A recommendation as lines that a user copies into a job script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from jobsight_server.accounting.amounts import MIB, clock_text
from jobsight_server.advice.recommendation import Recommendation
from jobsight_server.advice.scheduler_words import (
    MINUTE_S,
    JobRequest,
    PbsRequest,
    RequestError,
    pbs_advice,
    slurm_advice,
)
from jobsight_server.forecasts.decision import ASKED_FOR, Resource
from jobsight_server.forecasts.record import Record
from jobsight_server.settings.declared import AccountingSource

Scheduler = Literal["slurm", "pbs", "gridengine"]

SCHEDULERS: dict[str, Scheduler] = {
    "slurm": "slurm",
    "pbspro": "pbs",
    "torque": "pbs",
    "gridengine": "gridengine",
}
"""Scheduler by format of the accounting log; the other formats do not name one."""


def scheduler_of(sources: Iterable[AccountingSource], cluster: str) -> Scheduler | None:
    """Return the scheduler whose log is followed for this cluster; None if the settings do not name its format."""
    for source in sources:
        if source.cluster == cluster:
            return "slurm" if source.sacct else SCHEDULERS.get(source.format or "")
    return None


class AskLine(Record):
    """Lines of a job script, for one scheduler."""

    scheduler: Scheduler
    text: str


class Asked(Protocol):
    """The form of a job's request: its ``select`` or ``nodes``, the option for memory, and its GPUs; as in ``jobs``,
    None if unknown."""

    @property
    def requested_nodes(self) -> str | None: ...
    @property
    def memory_word(self) -> str | None: ...
    @property
    def gpus(self) -> int | None: ...


def lines_to_ask(
    found: Recommendation,
    scheduler: Scheduler | None,
    like: Asked | None = None,
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
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Asked | None
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


def _pbs(request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Asked | None) -> Iterator[str]:
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
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, like: Asked | None
) -> Iterator[str]:
    """Write ``h_vmem``, or the option that the job used, and ``h_rt``; per slot."""
    found = slurm_advice(request, memory_bytes, runtime_s)
    if found.mem_per_cpu is not None:
        yield f"#$ -l {(like and like.memory_word) or 'h_vmem'}={found.mem_per_cpu}M"
    if found.time_limit is not None:
        yield f"#$ -l h_rt={found.time_limit // 60:02}:{found.time_limit % 60:02}:00"
