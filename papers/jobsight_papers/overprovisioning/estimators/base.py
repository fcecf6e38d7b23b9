"""Base of all estimators: estimate the capacity that a job needs, and learn whether it was enough."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar, NamedTuple

from jobsight_predictor.question import Question

SIMILAR = ("user", "application", "requested_memory_bytes")
"""Fields that jobs of one similarity group share, as published."""
similar = attrgetter(*SIMILAR)
"""Returns the group of a job."""


class SystemState(NamedTuple):
    """State of the cluster, as far as an estimator sees it: free and total nodes of each class by capacity, and number
    of waiting jobs.
    """

    free: tuple[int, ...]
    nodes: tuple[int, ...]
    queued: int


class AttemptOutcome(NamedTuple):
    """Outcome of one attempt of a job.

    ``asked`` is the requested capacity, ``given`` the smallest among its nodes, which may be more. ``used`` is the
    job's use, None with implicit feedback or if a failed job's use is unknown. ``system`` is the cluster's state at the
    start.
    """

    asked: float
    given: float
    failed: bool
    used: float | None = None
    system: SystemState | None = None


class Estimator(ABC):
    """Estimates each job's required capacity (memory of a node, disk, ...) from outcomes of similar earlier jobs.

    ``capacities`` are those of the cluster's node classes, ascending; requests are rounded up to one of them.
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
        """Return the capacity to ask for, at most ``requested``. Does not change later estimates."""

    @abstractmethod
    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        """Learn from the outcome of an attempt. O(1) amortised."""

    def rounded(self, capacity: float) -> float:
        """Round up to a capacity of the cluster; ``capacity`` itself if it exceeds all."""
        place = bisect_left(self.capacities, capacity)
        return self.capacities[place] if place < len(self.capacities) else capacity


class Requested(Estimator):
    """No estimation: every job gets what it requests."""

    name = "none"

    def estimate(self, job: Question, requested: float, system: SystemState | None = None) -> float:
        return requested

    def learn(self, job: Question, requested: float, outcome: AttemptOutcome) -> None:
        """Do nothing."""
