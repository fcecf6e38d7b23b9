"""A recorded workload, and the order of submission and learning (docs/use/definitions.md, Backtest)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from jobsight_predictor.arrays import Floats, Indices
from jobsight_predictor.question import Question

Protocol = Literal["completion", "start", "submission"]
"""``completion``: forecast at submission, learned at the end. ``start``: forecast again as the job starts, and scored
on that. ``submission``: as if each job had ended before the next was submitted.
"""
PROTOCOLS: tuple[Protocol, ...] = ("completion", "start", "submission")


@dataclass(frozen=True, slots=True)
class Jobs:
    """A workload of n jobs: one value each, in one unit. Arrays are (n,), times in seconds.

    ``requested`` is the user's request in the unit of the values, NaN if unknown; ``skipped`` counts jobs of the source
    that are left out, by reason.
    """

    name: str
    metric: str
    questions: Sequence[Question]
    submitted: Floats
    ended: Floats
    values: Floats
    seconds: Floats
    requested: Floats
    skipped: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        good = (self.values >= 0.0) & np.isfinite(self.values)
        if not good.all():
            raise ValueError(f"values has {self.values[~good][0]!r}: skip and count values that are not measurements")
        if (self.ended < self.submitted).any():
            raise ValueError("a job ended before it was submitted: skip and count it")

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def started(self) -> Floats:
        """Start of each job, (n,) seconds; a job of less than 1 s counts as started that much before its end."""
        return np.maximum(self.submitted, self.ended - self.seconds)


def grouped(keys: Sequence[Any]) -> list[Indices]:
    """Group the indices by key, in order of first appearance."""
    members: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    return [np.array(indices, dtype=np.intp) for indices in members.values()]


def known_when_asked(submitted: Floats, ended: Floats) -> tuple[Indices, Indices]:
    """Return (order, known): job indices in order of completion, and how many jobs had ended at each job's submission.

    A job that ended at the instant of a submission counts as ended; a job never counts as ended before itself.
    """
    order = np.argsort(ended, kind="stable")
    known = np.searchsorted(ended[order], submitted, side="right")
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    return order, np.minimum(known, place)


def learning_order(jobs: Jobs, group: Indices, protocol: Protocol) -> tuple[Indices, Indices]:
    """Return (indices of a group's jobs in the order of learning, how many of them are known at each job's
    forecast)."""
    if protocol == "completion":
        return known_when_asked(jobs.submitted[group], jobs.ended[group])
    if protocol == "start":
        return known_when_asked(jobs.started[group], jobs.ended[group])
    order = np.argsort(jobs.submitted[group], kind="stable")
    known = np.empty(len(group), dtype=np.intp)
    known[order] = np.arange(len(group))
    return order, known


Happening = Literal["submit", "start", "finish"]


def in_time(jobs: Jobs, protocol: Protocol) -> Iterator[tuple[Happening, int]]:
    """Yield the submissions and ends of all jobs, for ``start`` their starts too, in the order in which a server sees
    them.

    At one instant ends come before submissions, and submissions before starts. Under the submission protocol each job
    ends as it is submitted.
    """
    if protocol == "submission":
        for i in np.argsort(jobs.submitted, kind="stable").tolist():
            yield "submit", i
            yield "finish", i
        return
    if protocol == "start":
        yield from _with_starts(jobs)
        return
    submitted, ended = jobs.submitted.tolist(), jobs.ended.tolist()
    coming = np.argsort(jobs.submitted, kind="stable").tolist()
    ending = np.argsort(jobs.ended, kind="stable").tolist()
    began = [False] * len(jobs)
    k = 0
    for i in coming:
        while k < len(ending) and ended[ending[k]] <= submitted[i]:
            if not began[ending[k]]:  # ends at the instant of its own submission, still to come
                break
            yield "finish", ending[k]
            k += 1
        began[i] = True
        yield "submit", i
    for i in ending[k:]:
        yield "finish", i


def _with_starts(jobs: Jobs) -> Iterator[tuple[Happening, int]]:
    n = len(jobs)
    started = jobs.started
    events: tuple[Happening, ...] = ("finish", "submit", "start")
    # A job that ends at the instant of its start still ends after it.
    rank = np.concatenate([np.where(jobs.ended <= started, 3, 0), np.full(n, 1), np.full(n, 2)])
    order = np.lexsort((rank, np.concatenate([jobs.ended, jobs.submitted, started])))
    for k in order.tolist():
        yield events[k // n], k % n
