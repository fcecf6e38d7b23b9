"""The jobs of the experiment: a trace for a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobsight_papers.overprovisioning.cluster.cases import MemoryCase, run_case
from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, jobs_on
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes
from jobsight_papers.traces import read_trace
from jobsight_scheduler.workload.swf import Trace


@dataclass(frozen=True, slots=True)
class JobSource:
    """A source of jobs: a trace, for a cluster."""

    file: Path
    classes: str = "512x32M,512x24M"


def source_for(file: Path, classes: str) -> JobSource:
    """Return the jobs of ``file`` for nodes of ``classes``.

    The size of the smaller nodes makes no difference: only the number of nodes and the largest size count.

    Raises:
        ValueError: ``classes`` are not nodes by memory.
    """
    parsed = parse_classes(classes)
    largest, total = parsed[-1], sum(entry.count for entry in parsed)
    smaller = f"{total - largest.count}x{largest.memory_bytes / MIB / 2.0:g}M," if total > largest.count else ""
    return JobSource(file, f"{smaller}{largest.count}x{largest.memory_bytes / MIB:g}M")


@lru_cache(maxsize=2)
def trace_of(file: Path) -> Trace:
    """Return the trace in ``file``, read once.

    Raises:
        UserError: it cannot be read, or has no job.
    """
    return read_trace(file)


@lru_cache(maxsize=2)
def jobs_of(source: JobSource) -> MemoryJobs:
    """Return the jobs that the cluster can run, read once.

    Raises:
        ValueError: no job is left, or the classes are invalid.
    """
    return jobs_on(trace_of(source.file), source.classes, source.file.name)


def run_on(case: MemoryCase, source: JobSource) -> dict[str, Any]:
    """Return the row of one run, with the memory of the smaller nodes in MB; None if there are more than two classes.

    Worker processes call it.
    """
    sizes = [entry.memory_bytes / MIB for entry in parse_classes(case.classes)]
    return {"second_mb": sizes[0] if len(sizes) < 3 else None} | run_case(case, jobs_of(source))
