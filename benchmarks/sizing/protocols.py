"""Two ways to replay a workflow with a rule that sizes its tasks (docs/develop/measurements.md)."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from sizing.tasks import Task

GBH = 3.6e12  # byte seconds in a GBh
SEED = 1996  # of the published split and the order of its tasks
MOST_ATTEMPTS = 60


class Rule(ABC):
    """Recommends memory for a task, from its properties at submission and the use of ended tasks.

    With ``by_size`` it also sees the size that the task will read, which is really known only afterwards.
    """

    by_size = False

    @abstractmethod
    def ask(self, task: Task) -> float:
        """Return the bytes for the first attempt."""

    @abstractmethod
    def again(self, task: Task, asked: float) -> float:
        """Return the bytes for the next attempt after ``asked`` was too little."""

    def fail(self, task: Task, asked: float) -> None:  # noqa: B027  most papers learn from ended tasks only
        """Note that an attempt ran out of memory."""

    @abstractmethod
    def learn(self, task: Task, need: float) -> None:
        """Learn that the task used ``need`` bytes."""


class WasteTotals(NamedTuple):
    """GBh wasted, attempts that failed."""

    gbh: float
    failures: int


class _Meter:
    def __init__(self) -> None:
        self.byte_seconds, self.failures = 0.0, 0

    def fits(self, task: Task, asked: float, need: float) -> bool:
        """Charge one attempt: its whole memory if it failed, otherwise the unused part; return whether it fits."""
        if not 0.0 < asked < np.inf:
            raise ValueError(f"{asked!r} bytes asked for a task of {task.process}")
        fits = asked >= need
        self.byte_seconds += (asked - need if fits else asked) * task.seconds
        self.failures += not fits
        return fits

    def waste(self) -> WasteTotals:
        return WasteTotals(self.byte_seconds / GBH, self.failures)


def next_attempt(rule: Rule, task: Task, asked: float, attempts: int) -> float:
    """Return the next request, which must be larger; raise if a rule never ends."""
    if attempts >= MOST_ATTEMPTS:
        raise ValueError(f"{attempts} attempts and {asked:g} bytes are not enough for a task of {task.process}")
    more = rule.again(task, asked)
    if not more > asked:
        raise ValueError(f"after {asked:g} bytes were too little, {more:g} were asked for a task of {task.process}")
    return more


def shuffled(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    """Group the tasks of protocol A by process, each in the published random order."""
    by_process: dict[str, list[Task]] = {}
    for task in tasks:
        if task.part:
            by_process.setdefault(task.process, []).append(task)
    return {
        process: [mine[i] for i in np.random.RandomState(SEED).permutation(len(mine))]
        for process, mine in by_process.items()
    }


def protocol_a(tasks: Sequence[Task], rule: Rule) -> WasteTotals:
    """Replay protocol A: each process has a history (its ``train`` tasks); other tasks follow singly. Need is ``rss``.

    Raises:
        ValueError: no task has a part.
    """
    ordered = shuffled(tasks)
    if not ordered:
        raise ValueError("no task is marked train or test in the column protocol_a: use protocol B")
    for mine in ordered.values():
        for task in mine:
            if task.part == "train":
                rule.learn(task, task.rss)
    meter = _Meter()
    for mine in ordered.values():
        for task in mine:
            if task.part == "test":
                asked, attempts = rule.ask(task), 1
                while not meter.fits(task, asked, task.rss):
                    rule.fail(task, asked)
                    asked, attempts = next_attempt(rule, task, asked, attempts), attempts + 1
                rule.learn(task, task.rss)
    return meter.waste()


def protocol_b(tasks: Sequence[Task], rule: Rule) -> WasteTotals:
    """Replay protocol B: a new site, real times, no history. Need is ``peak_rss``.

    The first attempt ends when the task ended, failed or not; each further one starts then and takes as long.
    At one instant ends come before submissions.
    """
    meter = _Meter()
    # (time, ends first, number that keeps the order, task, asked, attempts)
    events: list[tuple[float, bool, int, Task, float, int]] = [
        (task.submitted, True, i, task, 0.0, 0) for i, task in enumerate(tasks)
    ]
    heapq.heapify(events)
    number = len(events)
    while events:
        now, is_submission, _, task, asked, attempts = heapq.heappop(events)
        if is_submission:
            asked, ends = rule.ask(task), task.ended
        elif meter.fits(task, asked, task.peak_rss):
            rule.learn(task, task.peak_rss)
            continue
        else:
            rule.fail(task, asked)
            asked, ends = next_attempt(rule, task, asked, attempts), now + task.seconds
        heapq.heappush(events, (ends, False, number, task, asked, attempts + 1))
        number += 1
    return meter.waste()


Protocol = Callable[[Sequence[Task], Rule], WasteTotals]

PROTOCOLS: dict[str, Protocol] = {"A": protocol_a, "B": protocol_b}
