"""Several resources of one job: one is lowered at a time, so that a failure says which was too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from jobsight_predictor.question import Question

from .base import SIMILAR, Estimator, Outcome

DROPPED, KEPT = 1.0, 2.0
"""Capacities of a prerequisite that a job may or may not need: a resource that is lowered only once, to nothing."""


class SeveralResources:
    """An estimator for each resource (memory, disk, a prerequisite) of jobs.

    In each group, every resource has a value that is known to be enough, at first the request. A submission tries less
    of only one resource and gets the known sufficient value of all others; the next one tries the next resource.
    """

    def __init__(self, estimators: Mapping[str, Estimator], fields: Sequence[str] = SIMILAR) -> None:
        """Raises:
        ValueError: there is no resource.
        """
        if not estimators:
            raise ValueError("no resources: give at least one, with its estimator")
        self._estimators = dict(estimators)
        self._key = attrgetter(*fields)
        self._enough: dict[Any, dict[str, float]] = {}
        self._turn: dict[Any, int] = {}

    def estimate(self, job: Question, requested: Mapping[str, float]) -> dict[str, float]:
        """The amount of each resource to ask for, at most ``requested``. Changes nothing.

        Raises:
            KeyError: a resource that has no estimator is requested.
        """
        key = self._key(job)
        enough = self._enough.get(key, {})
        asked = {name: min(enough.get(name, most), most) for name, most in requested.items()}
        names = list(asked)
        first = self._turn.get(key, 0)
        for i in range(len(names)):
            name = names[(first + i) % len(names)]
            estimator = self._estimators[name]
            less = estimator.rounded(estimator.estimate(job, requested[name]))
            if less < asked[name]:
                asked[name] = less
                break
        return asked

    def learn(self, job: Question, requested: Mapping[str, float], asked: Mapping[str, float], *, failed: bool) -> None:
        """Learn from the result of an attempt that got what it ``asked`` for."""
        key = self._key(job)
        enough = self._enough.setdefault(key, {})
        tried = [name for name in asked if asked[name] < enough.get(name, requested[name])]
        # Nothing was tried, so the job is unlike earlier ones: nothing is known to be enough any more.
        for name in asked if not (failed and tried) else tried:
            self._estimators[name].learn(job, requested[name], Outcome(asked[name], asked[name], failed))
            if not failed:
                enough[name] = asked[name]
            elif not tried:
                enough.pop(name, None)
        names = list(asked)
        if tried:
            self._turn[key] = (names.index(tried[0]) + 1) % len(names)
