"""The figures of docs/use/accuracy.json: accuracy, coverage and waste on each trace, beside the simplest rules.

``make accuracy`` writes the file; a test compares a quick part, so that a change that moves a figure is noticed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from jobsight_predictor.evaluation.jobs import Jobs
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.backtest_jobs import jobs_of_machines, jobs_of_trace
from jobsight_scheduler.workload.swf import read_swf

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs/use/accuracy.json"
FOLDER = Path(os.environ.get("JOBSIGHT_TRACES", "traces"))
TOLERANCE = 0.002

TRACES = {
    "LANL-CM5": "LANL-CM5-1994-4.1-cln.swf.gz",
    "METACENTRUM": "METACENTRUM-2009-2.swf.gz",
    "UniLu-Gaia": "UniLu-Gaia-2014-2.swf.gz",
    "KTH-SP2": "KTH-SP2-1996-2.1-cln.swf.gz",
    "SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz",
    "Bitbrains": "bitbrains-rnd-2013-07-6h.csv.gz",
    "eager": "nextflow/eager.swf.gz",
    "mag": "nextflow/mag.swf.gz",
}
QUICK = (("small", "memory"), ("eager", "memory"), ("mag", "memory"))
"""Workloads that a test replays in seconds; the first needs no trace."""

Figures = dict[str, dict[str, float]]
"""``accuracy``, ``held`` (share of jobs within their reservation) and ``wasted`` (over used), each by rule."""


def workload(folder: Path, trace: str, metric: str) -> Jobs:
    """Read the jobs of one of ``TRACES``, or make ``small``."""
    if trace == "small":
        return small()
    file = folder / TRACES[trace]
    if ".csv" in file.name:
        return jobs_of_machines(file, metric)
    return jobs_of_trace(read_swf(file), metric, file.name)


def first_jobs(jobs: Jobs, n: int) -> Jobs:
    """Select the first n jobs by submission."""
    index = np.argsort(jobs.submitted, kind="stable")[:n]
    return replace(
        jobs,
        questions=[jobs.questions[i] for i in index.tolist()],
        **{name: getattr(jobs, name)[index] for name in ("submitted", "ended", "values", "seconds", "requested")},
    )


def small(jobs: int = 600) -> Jobs:
    """Make jobs from a fixed seed: eight users with up to four applications, whose memory depends on the request or
    drifts."""
    rng = Random(7)
    questions, rows, now = [], [], 0.0
    for i in range(jobs):
        now += rng.expovariate(1 / 300.0)
        user = rng.randrange(8)
        application, processors = rng.randrange(1 + user % 4), rng.choice((1, 4, 16))
        requested = rng.choice((1e9, 4e9, 16e9))
        typical = (0.6 * requested, 2e8 * (user + 1), 1e8 * (1 + i / 100))[(user + application) % 3]
        value = min(requested, typical * rng.lognormvariate(0.0, 0.1 + 0.1 * (application == 2)))
        seconds = rng.expovariate(1 / 2000.0) + 10.0
        questions.append(Question(f"u{user}", f"a{application}", "batch", processors, requested, 7200.0))
        rows.append((now, now + rng.expovariate(1 / 600.0) + seconds, value, seconds, requested))
    return Jobs("small", "memory", questions, *np.array(rows).T)


def figures(account: Mapping[str, Any]) -> Figures:
    """Extract the figures of a backtest; a rule that never reserves has none."""
    rules = {"jobsight": account["bounds"]} | {name: account["baselines"][name] for name in ("request", "maximum")}
    accuracy = {"jobsight": account["jobsight"], "last value": account["forecasters"]["locality"]}
    return {
        "accuracy": {name: _rounded(of["micro"]) for name, of in accuracy.items()},
        "held": {name: _rounded(of["coverage"]) for name, of in rules.items() if of["jobs"]},
        "wasted": {name: _rounded(1.0 / of["maq"] - 1.0) for name, of in rules.items() if of["jobs"]},
    }


def _rounded(value: float) -> float:
    return round(value, 4)


def read() -> dict[str, Figures]:
    """Read the recorded figures, by trace and metric in one name."""
    recorded: dict[str, Figures] = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def write(found: Mapping[str, Figures]) -> None:
    """Record these figures; those of other traces stay."""
    every = (read() if FILE.exists() else {}) | dict(found)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(every[name])}" for name in sorted(every))
    FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def moved(name: str, found: Figures) -> list[str]:
    """Return the differences from the recorded figures of this trace and metric above ``TOLERANCE``."""
    recorded = read()[name]
    return [
        f"{name}, {kind} of {rule}: {value} was {recorded[kind][rule]}"
        for kind, of_rules in found.items()
        for rule, value in of_rules.items()
        if abs(value - recorded[kind][rule]) > TOLERANCE * max(1.0, recorded[kind][rule])
    ]
