"""Jobs with requested and used memory, as far as a cluster can run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.estimators.base import SIMILAR
from jobsight_predictor.question import Question
from jobsight_scheduler.memory.nodes import parse_classes
from jobsight_scheduler.workload.canonical import Workload, canonical, questions_of
from jobsight_scheduler.workload.swf import Trace

KIB = 1024.0


@dataclass(frozen=True, slots=True)
class MemoryJobs:
    """Arrays of shape (jobs,), in the order of submission; memory in bytes per node, a node being a processor.

    ``used_bytes`` is at most ``requested_bytes`` and NaN where unknown: such a job never fails. ``questions`` are those
    to an estimator; ``group`` numbers the similarity groups. ``dropped`` counts, by reason, jobs of the workload that
    are missing here.
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
    """Return a number for each key, the same for equal ones, from 0 in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def memory_jobs(trace: Trace, workload: Workload, largest_bytes: float, most_nodes: int | None = None) -> MemoryJobs:
    """Return the jobs of ``workload`` that request at most ``largest_bytes``; an unknown request counts as that.

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


def jobs_on(trace: Trace, classes: str, name: str) -> MemoryJobs:
    """Return the jobs of ``trace``, called ``name``, that nodes of ``classes`` can run, whatever the memory of the
    smaller ones.

    Drops jobs that request more memory than the largest nodes have, or more nodes than these.

    Raises:
        ValueError: no job is left, or the classes are invalid.
    """
    parsed = parse_classes(classes)
    workload = canonical(trace, sum(entry.count for entry in parsed))
    jobs = memory_jobs(trace, workload, parsed[-1].memory_bytes, parsed[-1].count)
    dropped = workload.dropped + jobs.dropped
    if not len(jobs):
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
        raise ValueError(f"{name}: no job fits on {classes}: {reasons}")
    return replace(jobs, dropped=dropped)


def offered_load(jobs: MemoryJobs, nodes: int) -> float:
    """Return the jobs' node-seconds as a share of those of ``nodes`` from the first submission to the last.

    Raises:
        ValueError: all jobs are submitted at once.
    """
    span = float(jobs.submit_s[-1] - jobs.submit_s[0])
    if span <= 0.0:
        count = f"{len(jobs):,} jobs, all submitted at once," if len(jobs) > 1 else "a single job"
        raise ValueError(f"the load of {count} cannot be scaled")
    return jobs.node_seconds / (nodes * span)


def at_load(jobs: MemoryJobs, nodes: int, load: float) -> MemoryJobs:
    """Return the jobs with all times between submissions stretched or shrunk to an offered ``load``."""
    return replace(jobs, submit_s=jobs.submit_s * (offered_load(jobs, nodes) / load))
