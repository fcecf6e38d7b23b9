"""A recommendation as lines that a user copies into a job script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from jobsight_server.accounting.amounts import clock_text
from jobsight_server.advice.recommendation import Recommendation
from jobsight_server.advice.scheduler_words import (
    MINUTE_S,
    JobRequest,
    PbsRequest,
    RequestError,
    pbs_advice,
    slurm_advice,
)
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


def ask_lines(
    scheduler: Scheduler | None,
    request: JobRequest,
    memory_bytes: float | None,
    runtime_s: float | None,
    requested_nodes: str | None = None,
    memory_word: str | None = None,
) -> list[AskLine]:
    """Write memory and run time of the whole job for ``scheduler``, for Slurm and PBS if None; empty without either.

    ``requested_nodes``: the job's ``select`` or ``nodes``, if it had one; ``memory_word``: as in ``jobs``.
    """
    wanted: tuple[Scheduler, ...] = ("slurm", "pbs") if scheduler is None else (scheduler,)
    if memory_bytes is None and runtime_s is None:
        return []
    write = {"slurm": _slurm, "pbs": _pbs, "gridengine": _gridengine}
    words = requested_nodes, memory_word
    return [AskLine(name, write[name](request, memory_bytes, runtime_s, *words)) for name in wanted]


def lines_to_ask(
    found: Recommendation, scheduler: Scheduler | None, requested_nodes: str | None = None
) -> list[AskLine]:
    """Write the recommended memory and run time as ``ask_lines`` does; the job's own request where that is best."""
    best, word = (found.best("memory"), found.best("runtime")), found.such_jobs.memory_word
    return ask_lines(scheduler, found.request, *best, requested_nodes, word)


def _slurm(
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, _nodes: str | None, _word: str | None
) -> str:
    """Write ``#SBATCH --mem-per-cpu=683M`` and the time limit."""
    found = slurm_advice(request, memory_bytes, runtime_s)
    lines = [] if found.mem_per_cpu is None else [f"#SBATCH --mem-per-cpu={found.mem_per_cpu}M"]
    if found.time_limit is not None:
        lines.append(f"#SBATCH --time={clock_text(found.time_limit * MINUTE_S)}")
    return "\n".join(lines)


def _pbs(
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, nodes: str | None, word: str | None
) -> str:
    """Write memory into the chunks of a ``select``: PBS rejects ``mem`` of the whole job beside it."""
    # ``nodes=2:ppn=8`` is TORQUE's; a select names resources with a value, such as ncpus.
    select = nodes if nodes is not None and "ncpus=" in nodes else None
    try:
        found = pbs_advice(PbsRequest(select=select), request, memory_bytes, runtime_s)
    except RequestError:  # unreadable; the user can split the memory
        select, found = None, pbs_advice(PbsRequest(), request, memory_bytes, runtime_s)
    lines = []
    if word in ("pmem", "vmem", "pvmem") and memory_bytes is not None:
        lines.append(f"#PBS -l {word}={found.mem if word == 'vmem' else found.pmem}")
    elif found.select is not None:
        lines.append(f"#PBS -l select={found.select}")
    elif found.mem is not None:
        lines.append(f"#PBS -l mem={found.mem}")
    if found.walltime is not None:
        lines.append(f"#PBS -l walltime={found.walltime}")
    return "\n".join(lines)


def _gridengine(
    request: JobRequest, memory_bytes: float | None, runtime_s: float | None, _nodes: str | None, word: str | None
) -> str:
    """Write ``h_vmem``, or the ``word`` by which memory was requested, and ``h_rt``; per slot."""
    found = slurm_advice(request, memory_bytes, runtime_s)
    lines = [] if found.mem_per_cpu is None else [f"#$ -l {word or 'h_vmem'}={found.mem_per_cpu}M"]
    if found.time_limit is not None:
        lines.append(f"#$ -l h_rt={found.time_limit // 60:02}:{found.time_limit % 60:02}:00")
    return "\n".join(lines)
