"""Traces as simulated, so that simulators can be compared (docs/use/definitions.md, Canonical form)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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
    """The jobs of ``trace`` that a machine of ``machine_processors`` can run.

    Processors are those requested, else those used; the estimate is the time requested, else the run time; the run
    time is cut at the estimate (``clamped``). Jobs without run time, processors or submit time, with half a processor,
    beyond all time, or too large, are ``dropped``. Sorted by submission (stable), the first at 0; jobs listed after a
    later one are ``reordered``.

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
