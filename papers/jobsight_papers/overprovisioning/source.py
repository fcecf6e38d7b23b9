"""The jobs of the experiment: a trace for a cluster, as it is or as the paper took it, in similarity groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from jobsight_papers.overprovisioning.cluster.cases import MemoryCase, run_case
from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs, jobs_on, numbered
from jobsight_papers.overprovisioning.cluster.nodes import MIB, parse_classes
from jobsight_papers.overprovisioning.estimators.base import SIMILAR
from jobsight_papers.overprovisioning.fill_orders import ORDERS
from jobsight_papers.overprovisioning.variants import PAPER_VARIANTS
from jobsight_papers.traces import read_trace
from jobsight_scheduler.workload.swf import Trace


@dataclass(frozen=True, slots=True)
class JobSource:
    """A source of jobs: a trace, for a cluster. ``raw`` uses the processors used and run times beyond the request.

    Jobs of one similarity group share ``fields``.
    """

    file: Path
    classes: str = "512x32M,512x24M"
    raw: bool = False
    fields: tuple[str, ...] = SIMILAR


def source_for(file: Path, classes: str, raw: bool = False, fields: Sequence[str] | None = None) -> JobSource:
    """Return the jobs of ``file`` for nodes of ``classes``.

    The size of the smaller nodes makes no difference: only the number of nodes and the largest size count.

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
    trace = trace_of(source.file)
    jobs = jobs_on(raw_form(trace) if source.raw else trace, source.classes, source.file.name)
    if source.fields == SIMILAR:
        return jobs
    return replace(jobs, group=numbered(map(attrgetter(*source.fields), jobs.questions)))


def run_on(case: MemoryCase, source: JobSource) -> dict[str, Any]:
    """Return the row of one run, with the memory of the smaller nodes in MB; None if there are more than two classes.

    Worker processes call it.
    """
    sizes = [entry.memory_bytes / MIB for entry in parse_classes(case.classes)]
    row = run_case(case, jobs_of(source), source.fields, ORDERS[case.order], PAPER_VARIANTS)
    return {"second_mb": sizes[0] if len(sizes) < 3 else None} | row


def raw_form(trace: Trace) -> Trace:
    """Return ``trace`` with used processors as the requested ones, and no run time beyond the requested time."""
    used, asked = trace["processors"], trace["requested_s"]
    columns = {
        "requested_processors": np.where(used > 0, used, trace["requested_processors"]),
        "requested_s": np.where(asked > 0, np.maximum(asked, trace["run_s"]), asked),
    }
    return replace(trace, columns={**trace.columns, **columns})
