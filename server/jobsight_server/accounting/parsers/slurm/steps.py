"""The steps of a job and their use: Slurm measures memory for steps only.

Slurm accounts the use of GPUs (``gres/gpumem`` in bytes, ``gres/gpuutil`` in per cent of one GPU) where
``AccountingStorageTRES`` has ``gres/gpu`` and gres.conf says ``AutoDetect=nvml`` or ``rsmi``. It samples each process
every ``JobAcctGatherFrequency`` seconds. ``TRESUsageInMax`` is the highest sample of any task, ``Min`` that of the task
whose highest was lowest; ``Tot`` is the sum over tasks at the last sample, by which they may have released everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from jobsight_server.accounting.parsers.slurm.quantities import UNKNOWN, amount, clock_s, count, moment, tres
from jobsight_server.accounting.runs import AccountingError

Row = Mapping[str, str]
"""Column of sacct -> text; each form of Slurm's output is read into it."""

GPU_TRES = {"gpu_memory": ("gres/gpumem", 1.0), "gpu_utilisation": ("gres/gpuutil", 0.01)}
"""Metric -> its resource, and the factor to the metric's unit."""

OUT_OF_MEMORY = 125
"""Slurm's artificial signal for a job that ran out of memory."""

_OF_SLURM = frozenset({"batch", "extern", "interactive"})  # with one task each; the job's script starts the others
_SIGNALLED = 256  # offset of the signal that ended a job, as in TORQUE
_INTERVAL_S = 30.0
"""Slurm's default interval between samples; the log does not say which one a cluster or a job had."""
_GRES = re.compile(r"(?:^|,)(?:gres/)?gpu(?::(?![0-9]+(?:[,(]|$))([^:,()=]+))?(?:[:=]([0-9]{1,6}))?(?=[,(]|$)")
_EXIT = re.compile(r"(-?[0-9]{1,9}):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ExitCode:
    """The exit code of a job or step; ``signal`` 0 if none."""

    code: int = 0
    signal: int = 0

    @property
    def status(self) -> int:
        return _SIGNALLED + self.signal if self.signal else self.code


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """One step of a job: the sums over its tasks; 0 where nothing was measured.

    ``end`` is None while it runs. ``incomplete``: some of its tasks were not measured, or perhaps not. ``used_gpus``:
    metric -> use, where Slurm accounts it.
    """

    step_id: str
    start: float | None
    end: float | None
    memory_bytes: int
    cpu_s: float
    out_of_memory: bool
    exit: ExitCode
    incomplete: bool
    used_gpus: Mapping[str, float]


def step_of(row: Row) -> SlurmStep:
    """Return the step in its row.

    Raises:
        AccountingError: it cannot be used, for the given reason.
    """
    used, least, largest = (tres(name, row.get(name, "")) for name in _USED)
    step_id = (row.get("JobIDRaw") or row["JobID"]).partition(".")[2].lower()
    tasks = 1 if step_id in _OF_SLURM else count("NTasks", row.get("NTasks", ""))
    code = exit_code("ExitCode", row) or ExitCode()
    return SlurmStep(
        step_id=step_id,
        start=moment("Start", row["Start"]),
        end=moment("End", row["End"]),
        memory_bytes=int(max(used.get("mem", 0.0), largest.get("mem", 0.0)) or _resident(row, tasks)),
        cpu_s=max(clock_s("TotalCPU", row.get("TotalCPU", "")) or 0.0, used.get("cpu", 0.0), largest.get("cpu", 0.0)),
        out_of_memory="OUT_OF_MEMORY" in row["State"].upper() or code.signal == OUT_OF_MEMORY,
        exit=code,
        # A task without any memory was not measured, so the sum lacks it. An average is no peak.
        incomplete=(tasks != 1 and not least.get("mem")) or not ("mem" in used or row.get("MaxRSS")),
        used_gpus=_used_of_gpus(used, largest, least, tasks),
    )


_USED = ("TRESUsageInTot", "TRESUsageInMin", "TRESUsageInMax")


def exit_code(column: str, row: Row) -> ExitCode | None:
    """Return the code and the signal of ``0:125``; None if unknown."""
    text = row.get(column, "")
    if text in UNKNOWN:
        return None
    match = _EXIT.fullmatch(text)
    if match is None:
        raise AccountingError(f"{column} is not CODE:SIGNAL", text)
    return ExitCode(int(match[1]), int(match[2]))


def _resident(row: Row, tasks: int | None) -> float:
    """Return a lower bound of the tasks' peak memory, if only their average and largest are columns.

    The average is of the last sample, so it is not a peak; the largest is a lower bound of the sum over several tasks.
    """
    average, largest = (amount(name, row.get(name) or "0") for name in ("AveRSS", "MaxRSS"))
    return max(average * (tasks or 1), largest)


def gpus_of(resources: Mapping[str, float], gres: str) -> tuple[int | None, str | None]:
    """Return the number of GPUs and their models; None if neither ``resources`` nor, before 20.11, ``gres`` has any.

    Some sites account them by model only.

    >>> gpus_of({"cpu": 4, "gres/gpu": 2, "gres/gpu:a100": 2}, ""), gpus_of({}, "gpu:k80:2(S:0),gpu:1,mic:1")
    ((2, 'a100'), (3, 'k80'))
    """
    counts = resources or {f"gres/gpu:{model}": float(number or 1) for model, number in _GRES.findall(gres)}
    models = {name.partition(":")[2]: count for name, count in counts.items() if name.startswith("gres/gpu:")}
    number = int(counts.get("gres/gpu", sum(models.values()))) or None
    return number, None if number is None else ",".join(sorted(filter(None, models)))


def _used_of_gpus(
    total: Mapping[str, float], largest: Mapping[str, float], least: Mapping[str, float], tasks: int | None
) -> dict[str, float]:
    """Return a step's use by metric: the sum of its tasks' known peaks, at least the sum at the last sample.

    >>> _used_of_gpus({"gres/gpumem": 0}, {"gres/gpumem": 5e9, "gres/gpuutil": 90}, {"gres/gpumem": 3e9}, 2)
    {'gpu_memory': 8000000000.0, 'gpu_utilisation': 0.9}
    """
    found = {}
    for metric, (name, unit) in GPU_TRES.items():
        if name in total or name in largest:
            peaks = largest.get(name, 0.0) + ((tasks or 1) - 1) * least.get(name, 0.0)
            found[metric] = unit * max(total.get(name, 0.0), peaks)
    return found


def incomplete(steps: Sequence[SlurmStep]) -> bool:
    """Return whether a step, or a task of one, was not measured; ``extern`` holds nothing of the job's."""
    return any(step.incomplete or not step.memory_bytes for step in steps if step.step_id != "extern")


def intervals(steps: Sequence[SlurmStep]) -> float | None:
    """Return the life of the shortest step in intervals: Slurm samples as it starts, and then after each."""
    lives = [
        step.end - step.start
        for step in steps
        if step.step_id != "extern" and step.start is not None and step.end is not None
    ]
    return min(lives) / _INTERVAL_S if lives else None


def most_at_once(steps: Sequence[SlurmStep], amounts: Sequence[float], job_end: float) -> float:
    """Return the largest sum of amounts over steps that ran at the same time; each step has one.

    Steps that follow one another within a second do not overlap.
    """
    # With equal starts, steps shorter than Slurm's clock are last: they ran in sequence, beside longer ones.
    lives = sorted(
        (start, end <= start, end, used)
        for start, end, used in (
            (job_end if step.start is None else step.start, job_end if step.end is None else step.end, used)
            for step, used in zip(steps, amounts, strict=True)
            if used > 0
        )
    )
    held = largest = 0.0
    ends: list[tuple[float, float]] = []  # running steps, the first to end on top
    for start, is_moment, end, used in lives:
        while ends and ends[0][0] <= start:
            held -= heappop(ends)[1]
        largest = max(largest, held + used)
        if not is_moment:
            heappush(ends, (end, used))
            held += used
    return largest
