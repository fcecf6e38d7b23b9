"""Conversion of recorded workloads into jobs for backtests."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import numpy as np

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import asked_si, questions_of
from jobsight_scheduler.workload.swf import Trace, TraceError

SWF_METRICS = ("memory", "cpu", "runtime")
VM_METRICS = ("memory", "cpu", "bandwidth")

WINDOW_S = 6 * 3600.0
"""Length of a window of the virtual machines' averages; each window is a job of its machine."""

LATEST_S = 1e12
"""Times beyond this, some 30,000 years, are invalid."""


def jobs_of_trace(trace: Trace, metric: str, name: str) -> Jobs:
    """Return the jobs of a Standard Workload Format trace with a ``metric`` value: memory (bytes per processor), cpu,
    runtime.

    A job of unknown run time counts as ended when it started. ValueError for a metric that the format does not have.
    """
    if metric not in SWF_METRICS:
        raise ValueError(f"the Standard Workload Format has no {metric}; choose from {', '.join(SWF_METRICS)}")
    run, wait = trace["run_s"], np.maximum(trace["wait_s"], 0.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        values = {
            "memory": trace["memory_kb"] * 1024.0,
            "runtime": run,
            "cpu": np.where((run > 0.0) & (trace["cpu_s"] >= 0.0), trace["cpu_s"] / run, -1.0),
        }[metric]
    skipped: Counter[str] = Counter(trace.repairs)
    keep = np.ones(len(trace), dtype=bool)
    for reason, bad in (
        ("submit time unknown", trace["submit_s"] < 0.0),
        ("ends before it starts", (run < 0.0) & (run != -1.0)),
        (f"times beyond {LATEST_S:g} s", np.maximum(np.maximum(trace["submit_s"], wait), run) > LATEST_S),
        (f"no {metric} value", ~((values > 0.0) & (values <= LARGEST))),
    ):
        if count := int((keep & bad).sum()):
            skipped[reason] += count
        keep &= ~bad
    index = np.flatnonzero(keep)
    index = index[np.argsort(trace["submit_s"][index], kind="stable")]
    requested, requested_s = asked_si(trace["requested_memory_kb"], 1024.0), asked_si(trace["requested_s"], 1.0)
    asked = {"memory": requested, "runtime": requested_s}
    submitted = trace["submit_s"][index]
    return Jobs(
        name=name,
        metric=metric,
        questions=questions_of(trace, index),
        submitted=submitted,
        ended=submitted + wait[index] + np.maximum(run[index], 0.0),
        values=values[index],
        seconds=np.maximum(run[index], 1.0),
        requested=asked.get(metric, np.full(len(trace), np.nan))[index],
        skipped=dict(skipped),
    )


def jobs_of_machines(file: Path, metric: str) -> Jobs:
    """Return the windows of virtual machines in a CSV with the columns vm, start, cores, bandwidth_bps, memory_bytes
    and

    cpu_percent, plain or ``.gz``: the machine is the user, each window a job that ends as the next one is submitted.
    Network, memory and CPU are per core. TraceError for a file without these columns.
    """
    if metric not in VM_METRICS:
        raise ValueError(f"a trace of virtual machines has no {metric}; choose from {', '.join(VM_METRICS)}")
    column = {"memory": "memory_bytes", "bandwidth": "bandwidth_bps", "cpu": "cpu_percent"}[metric]
    scale = 0.01 if metric == "cpu" else 1.0
    rows: list[tuple[float, str, int, float]] = []
    skipped: Counter[str] = Counter()
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as stream:
        reader = csv.DictReader(stream)
        if missing := {"vm", "start", "cores", column} - set(reader.fieldnames or ()):
            raise TraceError(f"{file} lacks the columns {', '.join(sorted(missing))}")
        for row in reader:
            try:
                start, cores, value = float(row["start"]), int(row["cores"]), float(row[column]) * scale
            except (TypeError, ValueError):
                skipped["not numbers"] += 1
                continue
            if not 0.0 <= start <= LATEST_S:
                skipped["start unknown"] += 1
                continue
            if not 0.0 <= value <= LARGEST:
                skipped[f"no {metric} value"] += 1
                continue
            rows.append((start, row["vm"], cores, value / max(cores, 1) if metric != "cpu" else value))
    if not rows:
        raise TraceError(f"{file} has no window with a {metric} value")
    rows.sort(key=lambda row: row[0])
    starts = np.array([row[0] for row in rows])
    n = len(rows)
    return Jobs(
        name=file.name,
        metric=metric,
        questions=[Question(user=vm, processors=cores) for _, vm, cores, _ in rows],
        submitted=starts,
        ended=starts + WINDOW_S,
        values=np.array([value for *_, value in rows]),
        seconds=np.full(n, WINDOW_S),
        requested=np.full(n, np.nan),
        skipped=dict(skipped),
    )
