"""The jobs of a trace with the memory that they requested and used, as far as a cluster can run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

import numpy as np

from jobsight_predictor.estimators.base import SIMILAR
from jobsight_scheduler.memory.jobs import MemoryJobs, memory_jobs, numbered
from jobsight_scheduler.memory.nodes import MIB, parse_classes
from jobsight_scheduler.workload.canonical import canonical
from jobsight_scheduler.workload.swf import Trace, read_swf


@dataclass(frozen=True, slots=True)
class JobSource:
    """Which jobs: of a trace, for a cluster. ``raw`` uses the processors used and run times beyond the request.

    ``fields`` are those that jobs of one similarity group share.
    """

    file: Path
    classes: str = "512x32M,512x24M"
    raw: bool = False
    fields: tuple[str, ...] = SIMILAR


def source_for(file: Path, classes: str, raw: bool = False, fields: Sequence[str] | None = None) -> JobSource:
    """The jobs of ``file`` for nodes of ``classes``.

    The same jobs for every size of the smaller nodes: only the number of nodes and the largest size count.

    Raises:
        ValueError: ``classes`` are not nodes by memory.
    """
    parsed = parse_classes(classes)
    largest, total = parsed[-1], sum(entry.count for entry in parsed)
    smaller = f"{total - largest.count}x{largest.memory_bytes / MIB / 2.0:g}M," if total > largest.count else ""
    of = f"{smaller}{largest.count}x{largest.memory_bytes / MIB:g}M"
    return JobSource(file, of, raw, SIMILAR if fields is None else tuple(fields))


@lru_cache(maxsize=2)
def trace_of(file: Path) -> Trace:
    """The trace in ``file``, read once.

    Raises:
        TraceError: no line of the file is a job.
        OSError: the file cannot be read.
    """
    return read_swf(file)


@lru_cache(maxsize=2)
def jobs_of(source: JobSource) -> MemoryJobs:
    """The jobs that the cluster can run, whatever the memory of its smaller nodes.

    Drops jobs that request more memory than the largest nodes have, or more nodes than there are of these.

    Raises:
        ValueError: no job is left, or the classes are invalid.
    """
    classes = parse_classes(source.classes)
    trace = trace_of(source.file)
    workload = canonical(raw_form(trace) if source.raw else trace, sum(entry.count for entry in classes))
    jobs = memory_jobs(trace, workload, classes[-1].memory_bytes, classes[-1].count)
    dropped = workload.dropped + jobs.dropped
    if not len(jobs):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        raise ValueError(f"{source.file.name}: no job fits on {source.classes}: {reasons}")
    if source.fields == SIMILAR:
        return replace(jobs, dropped=dropped)
    return replace(jobs, group=numbered(map(attrgetter(*source.fields), jobs.questions)), dropped=dropped)


def raw_form(trace: Trace) -> Trace:
    """``trace`` with the processors that jobs used as those requested, and no run time beyond the requested time."""
    used, asked = trace["processors"], trace["requested_s"]
    columns = {
        "requested_processors": np.where(used > 0, used, trace["requested_processors"]),
        "requested_s": np.where(asked > 0, np.maximum(asked, trace["run_s"]), asked),
    }
    return replace(trace, columns={**trace.columns, **columns})


def offered_load(jobs: MemoryJobs, nodes: int) -> float:
    """Node-seconds of all jobs, as a share of those that ``nodes`` have from the first submission to the last.

    Raises:
        ValueError: all jobs are submitted at once.
    """
    span = float(jobs.submit_s[-1] - jobs.submit_s[0])
    if span <= 0.0:
        count = f"{len(jobs):,} jobs, all submitted at once," if len(jobs) > 1 else "a single job"
        raise ValueError(f"the load of {count} cannot be scaled")
    return jobs.node_seconds / (nodes * span)


def at_load(jobs: MemoryJobs, nodes: int, load: float) -> MemoryJobs:
    """The jobs with all times between submissions stretched or shrunk to an offered ``load``."""
    return replace(jobs, submit_s=jobs.submit_s * (offered_load(jobs, nodes) / load))
