"""The canonical form of a workload, its load on a machine, and its jobs as questions to a predictor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.forecasters.base import LARGEST
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.swf import Trace

LARGEST_MACHINE = 10**7
"""Largest number of processors simulated; plots and checks take memory for each."""

TIME_AT_MOST_S = 1e11
"""Three thousand years. Beyond some 1e15 s a second more is the same number, and a schedule would be nonsense."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs in the order of their submission, numbered from 1 by position; arrays of shape (jobs,), times in seconds.

    ``row`` is the position of each job in its trace. ``counts``: ``jobs``, ``dropped``, ``clamped``, ``reordered``.
    ``dropped`` counts the dropped ones by reason; ``places`` gives the position and value of the first of each.
    """

    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    processors: NDArray[np.int64]
    row: NDArray[np.int64]
    counts: Counter[str]
    dropped: Counter[str] = field(default_factory=Counter)
    places: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.submit_s)


def canonical(trace: Trace, machine_processors: int) -> Workload:
    """Return the jobs of ``trace`` that a machine of ``machine_processors`` can run.

    Processors are the requested ones, else the used ones; the estimate is the requested time, else the run time; run
    times are cut at the estimate (``clamped``). Jobs without run time, processors or submit time, with half a
    processor, beyond all time, or too large, are ``dropped``. Sorted by submission (stable), the first at 0; jobs
    listed after a later one are ``reordered``.

    Raises:
        ValueError: the machine has no processor, or too many to simulate.
    """
    if machine_processors < 1:
        raise ValueError(f"a machine of {machine_processors} processors runs nothing; give at least 1")
    if machine_processors > LARGEST_MACHINE:
        raise ValueError(f"a machine of {machine_processors:,} processors; give at most {LARGEST_MACHINE:,}")
    processors = np.where(trace["requested_processors"] > 0, trace["requested_processors"], trace["processors"])
    run = trace["run_s"]
    estimate = np.where(trace["requested_s"] > 0, trace["requested_s"], run)
    longest = np.maximum(np.maximum(run, estimate), trace["submit_s"])
    faults = (
        ("no submit time", trace["submit_s"] < 0, trace["submit_s"]),
        ("no run time", run <= 0, run),
        (f"times beyond {TIME_AT_MOST_S:.0e} s", longest > TIME_AT_MOST_S, longest),
        ("no processors", processors <= 0, processors),
        ("fractional number of processors", processors != np.floor(processors), processors),
        (f"more than the machine's {machine_processors:,} processors", processors > machine_processors, processors),
    )
    usable = np.ones(len(trace), dtype=bool)
    dropped: Counter[str] = Counter()
    places: dict[str, str] = {}
    for reason, faulty, values in faults:
        found = np.flatnonzero(usable & faulty)
        if len(found):
            dropped[reason] = len(found)
            places[reason] = f"{trace.place(int(found[0]))}: {values[found[0]]:g}"
            usable[found] = False
    kept = np.flatnonzero(usable)
    given = trace["submit_s"][kept]
    reordered = int(np.count_nonzero(given < np.maximum.accumulate(given)))
    kept = kept[np.argsort(trace["submit_s"][kept], kind="stable")]
    submit = trace["submit_s"][kept]
    clamped = int(np.count_nonzero(run[kept] > estimate[kept]))
    return Workload(
        submit_s=submit - submit[0] if len(submit) else submit,
        run_s=np.minimum(run[kept], estimate[kept]),
        estimate_s=estimate[kept],
        processors=processors[kept].astype(np.int64),
        row=kept,
        counts=Counter(jobs=len(kept), dropped=len(trace) - len(kept), clamped=clamped, reordered=reordered),
        dropped=dropped,
        places=places,
    )


LOAD_AT_MOST = 100.0


def offered_load(workload: Workload, capacity: int) -> float:
    """Return the submitted processor seconds as a share of the machine's from the first submission to the last.

    Raises:
        ValueError: all jobs are submitted at once, or there are none: the load is infinite or undefined.
    """
    span = float(workload.submit_s[-1]) if len(workload) else 0.0
    if span <= 0.0:
        raise ValueError(f"{len(workload)} jobs, all submitted at once, have no load that can be measured or scaled")
    return float(workload.processors @ workload.run_s) / (capacity * span)


def scaled_to(workload: Workload, capacity: int, load: float) -> Workload:
    """Return the jobs of ``workload`` with all times between submissions stretched or shrunk to an offered ``load``.

    Raises:
        ValueError: ``load`` is not above 0 or beyond 100, the workload's own cannot be scaled, or it would last too
        long for precise times.
    """
    if not 0.0 < load <= LOAD_AT_MOST:
        raise ValueError(
            f"a load of {load} cannot be offered; give a share of the machine such as 0.8, at most {LOAD_AT_MOST:g}"
        )
    stretched = offered_load(workload, capacity) / load
    if float(workload.submit_s[-1]) * stretched > TIME_AT_MOST_S:
        raise ValueError(f"a load of {load} stretches the workload beyond {TIME_AT_MOST_S:.0e} s; give a higher one")
    return replace(workload, submit_s=workload.submit_s * stretched)


def questions_of(trace: Trace, rows: NDArray[np.intp]) -> list[Question]:
    """Return a question for each of ``rows``; fields missing in the trace are None. Memory is per processor."""
    processors = np.where(trace["requested_processors"] > 0.0, trace["requested_processors"], trace["processors"])
    columns = [
        _names(trace["user"][rows]),
        _names(trace["application"][rows]),
        _names(trace["queue"][rows]),
        [int(count) if count > 0.0 else None for count in processors[rows].tolist()],
        _known(asked_si(trace["requested_memory_kb"][rows], 1024.0)),
        _known(asked_si(trace["requested_s"][rows], 1.0)),
        _names(trace["group"][rows]),
    ]
    return [Question(*row) for row in zip(*columns, strict=True)]


def asked_si(requests: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return the requests in SI units; NaN for a missing or invalid one."""
    there = (requests > 0.0) & (requests <= LARGEST / unit)
    return np.where(there, requests, np.nan) * unit


def _known(numbers: NDArray[np.float64]) -> list[float | None]:
    return [None if value != value else value for value in numbers.tolist()]


def _names(numbers: NDArray[np.float64]) -> list[str | None]:
    # Every digit: users numbered beyond a million must not be merged.
    return [f"{number:.17g}" if number >= 0.0 else None for number in numbers.tolist()]
