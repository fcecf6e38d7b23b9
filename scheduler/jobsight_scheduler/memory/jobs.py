"""Jobs with the memory that they requested and used, from a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.estimators.base import SIMILAR
from jobsight_predictor.question import Question
from jobsight_scheduler.workload.canonical import Workload
from jobsight_scheduler.workload.questions import questions_of
from jobsight_scheduler.workload.swf import Trace

KIB = 1024.0


@dataclass(frozen=True, slots=True)
class MemoryJobs:
    """Arrays of shape (jobs,), in the order of submission; memory in bytes per node, a node being a processor.

    ``used_bytes`` is at most ``requested_bytes`` and NaN where unknown: such a job never fails. ``questions`` is what
    an estimator may know about each; ``group`` numbers the similarity groups. ``dropped`` counts, by reason, jobs of
    the workload that are missing here.
    """

    submit_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    nodes: NDArray[np.int64]
    requested_bytes: NDArray[np.float64]
    used_bytes: NDArray[np.float64]
    questions: Sequence[Question]
    group: NDArray[np.int64]
    dropped: Counter[str]

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def node_seconds(self) -> float:
        """Node-seconds of all jobs."""
        return float((self.nodes * self.run_s).sum())


def numbered(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """A number for each key, the same for equal ones, from 0 in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def memory_jobs(trace: Trace, workload: Workload, largest_bytes: float, most_nodes: int | None = None) -> MemoryJobs:
    """The jobs of ``workload`` that request no more than ``largest_bytes``; an unknown request is for the largest.

    ``most_nodes`` drops jobs that request or use more nodes.
    """
    asked = trace["requested_memory_kb"][workload.row] * KIB
    used = trace["memory_kb"][workload.row] * KIB
    requested = np.where(asked > 0.0, asked, largest_bytes)
    kept = requested <= largest_bytes
    dropped = Counter({"request more memory than the largest node has": int(np.count_nonzero(~kept))})
    if most_nodes is not None:
        larger = np.maximum(workload.processors, trace["processors"][workload.row]) > most_nodes
        dropped[f"request or use more than {most_nodes} nodes"] = int(np.count_nonzero(kept & larger))
        kept &= ~larger
    places = np.flatnonzero(kept)
    submit = workload.submit_s[places]
    questions = questions_of(trace, workload.row[places])
    return MemoryJobs(
        submit_s=submit - submit[0] if len(submit) else submit,
        run_s=workload.run_s[places],
        estimate_s=workload.estimate_s[places],
        nodes=workload.processors[places],
        requested_bytes=requested[places],
        used_bytes=np.where(used > 0.0, np.minimum(used, requested), np.nan)[places],
        questions=questions,
        group=numbered(map(attrgetter(*SIMILAR), questions)),
        dropped=+dropped,
    )
