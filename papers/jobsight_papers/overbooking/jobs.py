"""The jobs of the overbooking experiment: the last of a trace, offered with drawn times, and those before them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overbooking.simulation import DEADLINE_FACTOR, OfferedJob
from jobsight_papers.overbooking.strategies import HISTORIES, AccuracyHistory, HistoryName
from jobsight_papers.traces import read_trace
from jobsight_predictor.question import Question
from jobsight_scheduler.overbooking.plan import LARGEST_PLAN
from jobsight_scheduler.workload.canonical import TIME_AT_MOST_S, questions_of
from jobsight_scheduler.workload.swf import Trace

LAST_JOBS = 1000
RELEASE_MEAN_H = 12.0


@dataclass(frozen=True, slots=True)
class PublishedTrace:
    """Nodes and mean inter-arrival time in hours, as published, and the processors of a node."""

    nodes: int
    arrival_h: float
    per_node: int = 1


PUBLISHED_TRACES: dict[str, PublishedTrace] = {
    "BLUE": PublishedTrace(144, 1.0, 8),  # before SDSC, whose name is also in this header
    "CTC": PublishedTrace(430, 0.1),
    "KTH": PublishedTrace(100, 0.1),
    "SDSC": PublishedTrace(128, 0.5),
}
ARRIVAL_H = 0.5
"""Mean inter-arrival time for other traces."""

LOW_LOAD_ARRIVAL_H = 1.0
"""Mean inter-arrival time with ``--low-load``."""

_OTHER_NAMES = {"BLUE HORIZON": "BLUE", "CORNELL THEORY": "CTC"}


@dataclass(frozen=True, slots=True)
class OverbookingSource:
    """The source of jobs: the last ``last_jobs`` of a trace without the last ``skipped``.

    Sizes in processors count as nodes of ``per_node`` processors.
    """

    file: Path
    last_jobs: int = LAST_JOBS
    skipped: int = 0
    per_node: int = 1

    @property
    def before(self) -> OverbookingSource:
        """The source of as many jobs right before these, for a rehearsal."""
        return replace(self, skipped=self.skipped + self.last_jobs)


@dataclass(frozen=True, slots=True)
class OverbookingJobs:
    """Jobs in the order of the trace, arrays of shape (jobs,) in hours. The first ``learned`` are history.

    ``name`` is the published name of the trace, or its file's. ``counts`` and ``dropped``: jobs by reason.
    """

    name: str
    published: PublishedTrace | None
    max_processors: int | None
    questions: list[Question]
    requested_h: NDArray[np.float64]
    run_h: NDArray[np.float64]
    nodes: NDArray[np.int64]
    learned: int
    counts: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


def published_name(file: Path, header: list[str]) -> str | None:
    """Return the published trace in ``file``, by its name or else by its header."""
    for text in (file.name.upper(), *(line.upper() for line in header if line.startswith(("Computer", "Install")))):
        names = {name: name for name in PUBLISHED_TRACES} | _OTHER_NAMES
        for found, name in names.items():
            if found in text:
                return name
    return None


@lru_cache(maxsize=2)
def _trace(file: Path) -> Trace:
    return read_trace(file)


@lru_cache(maxsize=4)
def overbooking_jobs(source: OverbookingSource) -> OverbookingJobs:
    """Return the usable jobs of the trace. Cut and count run times beyond the requested time.

    Raises:
        UserError: the file cannot be read, or is not a trace.
        ValueError: the trace has no usable job, or ``last_jobs`` is less than 1.
    """
    if source.last_jobs < 1:
        raise ValueError(f"{source.last_jobs} jobs are nothing to simulate; give at least 1")
    trace = _trace(source.file)
    nodes = np.where(trace["requested_processors"] > 0, trace["requested_processors"], trace["processors"])
    usable, dropped = _usable(trace, nodes)
    rows = np.flatnonzero(usable)
    rows = rows[: max(0, len(rows) - source.skipped)]
    if not len(rows):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        raise ValueError(f"{source.file.name}: no job has a requested time, a run time and processors: {reasons}")
    requested, run = trace["requested_s"][rows] / 3600.0, trace["run_s"][rows] / 3600.0
    clamped = int(np.count_nonzero(run > requested))
    name = published_name(source.file, trace.header)
    learned = max(0, len(rows) - source.last_jobs)
    shown = name or source.file.name.removesuffix(".gz").removesuffix(".swf")
    return OverbookingJobs(
        shown if source.per_node == 1 else f"{shown} in nodes of {source.per_node}",
        PUBLISHED_TRACES.get(name or ""),
        trace.max_processors,
        questions_of(trace, rows),
        requested,
        np.minimum(run, requested),
        np.ceil(nodes[rows] / source.per_node).astype(np.int64),
        learned,
        Counter({"in the trace": len(trace), "learned from": learned, "offered": len(rows) - learned, "cut": clamped}),
        dropped,
    )


def _usable(trace: Trace, nodes: NDArray[np.float64]) -> tuple[NDArray[np.bool_], Counter[str]]:
    longest = np.maximum(trace["requested_s"], trace["run_s"])
    faults = (
        ("without a requested time", ~(trace["requested_s"] > 0.0)),
        ("without a run time", ~(trace["run_s"] >= 0.0)),
        (f"with times beyond {TIME_AT_MOST_S:.0e} s", longest > TIME_AT_MOST_S),
        ("without processors", ~(nodes > 0.0)),
        ("with a fractional number of processors", nodes != np.floor(nodes)),
        ("with more processors than any machine", nodes > 2.0**53),
    )
    usable = np.ones(len(trace), dtype=bool)
    dropped: Counter[str] = Counter()
    for reason, faulty in faults:
        found = usable & faulty
        if found.any():
            dropped[reason] = int(found.sum())
        usable &= ~found
    return usable, dropped


@lru_cache(maxsize=8)
def learned_history(source: OverbookingSource, name: HistoryName) -> AccuracyHistory:
    """Return the history of run times before the first offer. Do not change it: take a copy."""
    jobs = overbooking_jobs(source)
    history = HISTORIES[name]()
    ratios = (jobs.run_h[: jobs.learned] / jobs.requested_h[: jobs.learned]).tolist()
    for question, ratio in zip(jobs.questions, ratios, strict=False):
        history.learn(question, ratio)
    return history


def nodes_of(jobs: OverbookingJobs, nodes: int | None) -> int:
    """Return the machine's nodes: as given, as published, or as in the header of the trace.

    Raises:
        ValueError: the number is unknown or out of range.
    """
    found = nodes or (jobs.published.nodes if jobs.published else jobs.max_processors)
    if found is None:
        raise ValueError(f"{jobs.name}: the header does not have MaxProcs; give --nodes")
    if not 1 <= found <= LARGEST_PLAN:
        raise ValueError(f"{jobs.name}: {found:,} nodes; give --nodes from 1 to {LARGEST_PLAN:,}")
    return found


def arrival_of(jobs: OverbookingJobs, arrival_h: float | None) -> float:
    """Return the mean inter-arrival time in hours: as given, as published, or ``ARRIVAL_H``."""
    return arrival_h or (jobs.published.arrival_h if jobs.published else ARRIVAL_H)


def offered_jobs(jobs: OverbookingJobs, arrival_h: float, seed: int) -> list[OfferedJob]:
    """Return the jobs after the learned ones: submitted and released after exponential delays, deadline r + 5 e."""
    rng = np.random.default_rng(seed)
    count = len(jobs.requested_h) - jobs.learned
    submitted = np.cumsum(rng.exponential(arrival_h, count))
    released = submitted + rng.exponential(RELEASE_MEAN_H, count)
    requested = jobs.requested_h[jobs.learned :]
    return [
        OfferedJob(
            number,
            jobs.questions[jobs.learned + number],
            int(jobs.nodes[jobs.learned + number]),
            float(requested[number]),
            float(submitted[number]),
            float(released[number]),
            float(released[number] + DEADLINE_FACTOR * requested[number]),
            float(jobs.run_h[jobs.learned + number]),
        )
        for number in range(count)
    ]
