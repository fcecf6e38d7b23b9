"""Jobs with requested and used memory, as far as a cluster can run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overprovisioning.cluster.nodes import parse_classes
from jobsight_papers.overprovisioning.estimators.base import similar
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload, canonical, questions_of
from jobsight_scheduler.workload.swf import Trace

KIB = 1024.0


@dataclass(frozen=True, slots=True)
class MemoryJobs:
    """The jobs of ``work``, with arrays of shape (jobs,); memory in bytes per node, a node being a processor.

    ``used_bytes`` is at most ``requested_bytes`` and NaN where unknown: such a job never fails. ``questions`` are those
    to an estimator; ``group`` numbers the similarity groups; ``has_failed`` as recorded, for whatever reason.
    """

    work: Workload
    requested_bytes: NDArray[np.float64]
    used_bytes: NDArray[np.float64]
    questions: Sequence[Question]
    group: NDArray[np.int64]
    has_failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.work)


def numbered(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return a number for each key, the same for equal ones, from 0 in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def jobs_on(trace: Trace, classes: str, name: str) -> MemoryJobs:
    """Return the jobs of ``trace``, called ``name``, that nodes of ``classes`` can run, whatever the memory of the
    smaller ones; an unknown request counts as the largest memory.

    Drops jobs that request more memory than the largest nodes have, or more nodes than these.

    Raises:
        ValueError: no job is left, or the classes are invalid.
    """
    parsed = parse_classes(classes)
    largest = parsed[-1]
    workload = canonical(trace, sum(entry.count for entry in parsed))
    asked = trace["requested_memory_kb"][workload.row] * KIB
    used = trace["memory_kb"][workload.row] * KIB
    requested = np.where(asked > 0.0, asked, largest.memory_bytes)
    fits = requested <= largest.memory_bytes
    few = np.maximum(workload.processors, trace["processors"][workload.row]) <= largest.count
    dropped = workload.dropped + Counter(
        {
            "request more memory than the largest node has": int(np.count_nonzero(~fits)),
            f"request or use more than {largest.count} nodes": int(np.count_nonzero(fits & ~few)),
        }
    )
    kept = np.flatnonzero(fits & few)
    if not len(kept):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        raise ValueError(f"{name}: no job fits on {classes}: {reasons}")
    row = workload.row[kept]
    work = Workload(
        submit_s=workload.submit_s[kept] - workload.submit_s[kept[0]],
        run_s=workload.run_s[kept],
        estimate_s=workload.estimate_s[kept],
        processors=workload.processors[kept],
        row=row,
        counts=Counter({**workload.counts, "jobs": len(kept), "dropped": len(trace) - len(kept)}),
        dropped=dropped,
        places=workload.places,
    )
    questions = questions_of(trace, row)
    return MemoryJobs(
        work,
        requested_bytes=requested[kept],
        used_bytes=np.where(used > 0.0, np.minimum(used, requested), np.nan)[kept],
        questions=questions,
        group=numbered(map(similar, questions)),
        has_failed=trace["status"][row] == 0.0,
    )
