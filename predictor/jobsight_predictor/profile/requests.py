"""Whether what users request is a limit, and whether they know better than the bounds."""

from __future__ import annotations

from jobsight_predictor.choices import Limit
from jobsight_predictor.question import Question

from .steps import wasted

REQUEST_FADE = 0.999  # share; of a waste that still counts one job later
BETTER = 0.8  # share; requests that wasted less than this share of what bounds wasted are followed
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
        self._asked = 0
        self._beyond = 0
        self._wasted_by_requests = 0.0
        self._wasted_by_bounds = 0.0

    def of(self, question: Question) -> float | None:
        """What the job requests of the metric; None if it requests none."""
        found: float | None = getattr(question, self._field) if self._field is not None else None
        return found

    def are_limits(self, coverage: float) -> bool:
        """Whether a job is expected to stay within its request."""
        if self._limit != "auto":
            return self._limit == "yes"
        return self._beyond <= (1.0 - coverage) * self._asked + DOUBTED

    @property
    def are_better(self) -> bool:
        """Whether requests have lately wasted clearly less than bounds: these users know what their jobs need."""
        return self._wasted_by_requests < BETTER * self._wasted_by_bounds

    def score(self, request: float | None, bound: float | None, value: float, seconds: float, failure: float) -> None:
        """Learn what a job with this request used for these seconds, when the others' use spoke for ``bound``.

        ``failure`` is the price of an attempt that fails besides its waste, in value x seconds.
        """
        if request is None:
            return
        self._asked += 1
        self._beyond += value > request
        if bound is not None:
            self._wasted_by_requests *= REQUEST_FADE
            self._wasted_by_bounds *= REQUEST_FADE
            self._wasted_by_requests += wasted(request, value) * seconds + failure * (value > request)
            self._wasted_by_bounds += wasted(bound, value) * seconds + failure * (value > bound)

    def state(self) -> list[float]:
        """The whole state, as JSON values."""
        return [self._asked, self._beyond, self._wasted_by_requests, self._wasted_by_bounds]

    def load(self, state: list[float]) -> None:
        """Take over ``state()``."""
        asked, beyond, self._wasted_by_requests, self._wasted_by_bounds = state
        self._asked, self._beyond = int(asked), int(beyond)
