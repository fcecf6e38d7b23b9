"""Whether what users request is a limit."""

from __future__ import annotations

from typing import Literal

from jobsight_predictor.question import Question

Limit = Literal["auto", "yes", "no"]
LIMITS: tuple[Limit, ...] = ("auto", "yes", "no")

DOUBTED = 1.0  # jobs; number that may exceed their requests, beyond the share that bounds may fail

REQUESTED = {"memory": "requested_memory_bytes", "runtime": "requested_time_s"}
"""The field of a question that requests the metric."""


class RequestedLimits:
    """Counts the jobs that used more than they had requested.

    A request is a limit as long as at least as many jobs stay within it as within bounds: then no forecast and no bound
    need exceed it. ``limit`` "yes" or "no" settles it beforehand.
    """

    def __init__(self, metric: str, limit: Limit = "auto") -> None:
        self._field = REQUESTED.get(metric)
        self._limit = limit
        self.asked = 0
        self.beyond = 0

    def of(self, question: Question) -> float | None:
        """What the job requests of the metric; None if it requests none."""
        found: float | None = getattr(question, self._field) if self._field is not None else None
        return found

    def are_limits(self, coverage: float) -> bool:
        """Whether a job is expected to stay within its request."""
        if self._limit != "auto":
            return self._limit == "yes"
        return self.beyond <= (1.0 - coverage) * self.asked + DOUBTED

    def score(self, request: float | None, value: float) -> None:
        """Learn what a job with this request used."""
        if request is not None:
            self.asked += 1
            self.beyond += value > request
