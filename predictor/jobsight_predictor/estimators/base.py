"""The base of all estimators, which estimate the capacity a job needs and learn from whether it was enough."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from jobsight_predictor.question import Question

SIMILAR = ("user", "application", "requested_memory_bytes")
"""Fields that jobs of one similarity group share, as published."""


class SystemState(NamedTuple):
    """What an estimator may see of the cluster: free nodes and all nodes of each class, by capacity, and the number of
    waiting jobs.
    """

    free: tuple[int, ...]
    nodes: tuple[int, ...]
    queued: int


class JobOutcome(NamedTuple):
    """How one attempt of a job ended.

    ``asked`` is the capacity that was asked for, ``given`` the smallest among its nodes, which may be more; ``used``
    is what the job used, None with implicit feedback or if a failed job's use is unknown. ``system`` is the
    cluster as it was when the job was started.
    """

    asked: float
    given: float
    failed: bool
    used: float | None = None
    system: SystemState | None = None


class Estimator(ABC):
    """Estimates the capacity (memory of a node, disk, ...) that each job needs, from the results of similar earlier
    jobs.

    ``capacities`` are those of the cluster's node classes, ascending: what is asked for is rounded up to one of them.
    """

    name: ClassVar[str]

    sees_system: ClassVar[bool] = False
    """Whether the estimate depends on the state of the cluster."""

    def __init__(self, capacities: Sequence[float]) -> None:
        """Raises:
        ValueError: ``capacities`` are empty, not ascending, or not above 0.
        """
        if not capacities or capacities[0] <= 0.0 or any(a >= b for a, b in itertools.pairwise(capacities)):
            raise ValueError(f"capacities {list(capacities)!r}: give at least one, ascending and above 0")
        self.capacities = tuple(capacities)

    @abstractmethod
    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        """The capacity to ask for, at most ``requested``. Changes nothing that later estimates depend on."""

    @abstractmethod
    def learn(self, job: Question, requested: float, outcome: JobOutcome) -> None:
        """Learn from the result of an attempt. O(1) amortised."""

    def rounded(self, capacity: float) -> float:
        """The smallest capacity of the cluster that is at least ``capacity``; ``capacity`` itself if it exceeds all."""
        place = bisect_left(self.capacities, capacity)
        return self.capacities[place] if place < len(self.capacities) else capacity


class Requested(Estimator):
    """No estimation: every job gets what it requests."""

    name = "none"

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return requested

    def learn(self, job: Question, requested: float, outcome: JobOutcome) -> None:
        """Does nothing."""
