"""A job's use, from its steps: Slurm measures memory for steps only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

OF_SLURM = frozenset({"batch", "extern", "interactive"})
"""Steps that Slurm creates itself, with one task each; others are started by the job's script."""

_MOMENT_S = 1.0


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """One step of a job: the sums over its tasks; 0 where nothing was measured.

    ``end`` is None while it runs, ``exit_status`` as a job's. ``incomplete``: some of its tasks were not measured, or
    perhaps not. ``used_gpus``: metric -> use, where Slurm accounts it.
    """

    step_id: str
    start: float | None
    end: float | None
    memory_bytes: int = 0
    cpu_s: float = 0.0
    out_of_memory: bool = False
    exit_status: int | None = None
    incomplete: bool = False
    used_gpus: Mapping[str, float] = field(default_factory=dict)


def incomplete(steps: Sequence[SlurmStep]) -> bool:
    """Return whether a step, or a task of one, was not measured: it may have held most of the job's memory.

    A step of a second was sampled once at most, perhaps before it held all its memory. ``extern`` holds nothing of
    the job's.
    """
    return any(
        step.incomplete or not step.memory_bytes or _is_momentary(step) for step in steps if step.step_id != "extern"
    )


def _is_momentary(step: SlurmStep) -> bool:
    if step.step_id in OF_SLURM or step.start is None or step.end is None:
        return False
    return step.end - step.start <= _MOMENT_S


def memory_bytes(steps: Sequence[SlurmStep], job_end: float) -> int | None:
    """Return the largest sum over steps that ran at the same time; None if it was not measured.

    Steps that follow one another within a second do not overlap. It is a lower bound if the steps are ``incomplete``.
    """
    return int(_most_at_once(job_end, [(step, step.memory_bytes) for step in steps])) or None


def used_gpus(steps: Sequence[SlurmStep], job_end: float) -> dict[str, float]:
    """Return metric -> the largest sum over measured steps that ran at the same time."""
    metrics = dict.fromkeys(metric for step in steps for metric in step.used_gpus)
    return {name: _most_at_once(job_end, [(step, step.used_gpus.get(name, 0.0)) for step in steps]) for name in metrics}


def _most_at_once(job_end: float, amounts: Sequence[tuple[SlurmStep, float]]) -> float:
    """Return the largest sum of amounts over steps that ran at the same time."""
    # With equal starts, steps shorter than Slurm's clock are last: they ran in sequence, beside longer ones.
    lives = sorted(
        (start, end <= start, end, used)
        for start, end, used in (_life(step, job_end, used) for step, used in amounts if used > 0)
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


def cpu_s(steps: Sequence[SlurmStep]) -> float:
    """Return the processor time of all steps; 0 if it was not measured."""
    return sum(step.cpu_s for step in steps)


def _life(step: SlurmStep, job_end: float, used: float) -> tuple[float, float, float]:
    start = job_end if step.start is None else step.start
    return start, job_end if step.end is None else step.end, used
