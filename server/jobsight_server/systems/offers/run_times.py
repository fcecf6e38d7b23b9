"""How much of its requested time a job will use, from the finished jobs of a database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from sqlalchemy import Connection

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import GRID, PRIOR_JOBS, GroupAccuracy, RuntimeAccuracy, TimeSliceAccuracy
from jobsight_server.systems.offers.finished_runs import FinishedRun, runs_of_cluster, runs_of_user

Key = TypeVar("Key")
Value = TypeVar("Value")

NO_HISTORY = "no history"

_WHOLE = np.where(GRID < 1.0, 0.0, 1.0)
_KEPT_S = 30.0
_MOST_KEPT = 256


class RunTimes:
    """The distribution for a job like this one: of its user's jobs alike, mixed with wider groups of the cluster's.

    Nothing is stored for it: the last jobs of the user and of the cluster are read, and kept for half a minute.
    """

    def __init__(self) -> None:
        self._of_clusters: _Kept[str, TimeSliceAccuracy] = _Kept()
        self._of_users: _Kept[tuple[str, str], GroupAccuracy] = _Kept()

    def of(self, connection: Connection, cluster: str, job: Question) -> RuntimeAccuracy:
        """The distribution; where nothing is known of the cluster, jobs count as using their whole requested time."""
        wide = self._wide(connection, cluster)
        user = job.user
        if user is None:
            return _cautious(wide.distribution(job), wide)
        own = self._of_users.get((cluster, user), lambda: _of_user(runs_of_user(connection, cluster, user), wide))
        return _cautious(own.distribution(job), wide)

    def of_any(self, connection: Connection, cluster: str) -> Callable[[float], RuntimeAccuracy]:
        """The distribution of the cluster's jobs, by requested seconds."""
        wide = self._wide(connection, cluster)
        return lambda requested_s: _cautious(wide.distribution(Question(requested_time_s=requested_s)), wide)

    def _wide(self, connection: Connection, cluster: str) -> TimeSliceAccuracy:
        return self._of_clusters.get(cluster, lambda: _of_cluster(runs_of_cluster(connection, cluster)))


class _Kept(Generic[Key, Value]):
    """Values that are made again after half a minute; bounded in number."""

    def __init__(self) -> None:
        self._values: dict[Key, tuple[float, Value]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        now = time.monotonic()
        with self._lock:
            known = self._values.get(key)
        if known is not None and now - known[0] < _KEPT_S:
            return known[1]
        made = make()
        with self._lock:
            if len(self._values) >= _MOST_KEPT:
                self._values.clear()
            self._values[key] = now, made
        return made


def _cautious(found: RuntimeAccuracy, wide: TimeSliceAccuracy) -> RuntimeAccuracy:
    """``found``, as if ``PRIOR_JOBS`` jobs of the cluster had used their whole request: a few jobs prove little."""
    n = wide.distribution(Question()).jobs
    if n == 0 and found.jobs == 0:
        return RuntimeAccuracy(_WHOLE, 0.0, NO_HISTORY)
    return RuntimeAccuracy((n * found.cdf + PRIOR_JOBS * _WHOLE) / (n + PRIOR_JOBS), found.jobs, found.source)


def _of_cluster(runs: list[FinishedRun]) -> TimeSliceAccuracy:
    found = TimeSliceAccuracy()
    for run in runs:
        found.learn(run.question, run.ratio)
    return found


def _of_user(runs: list[FinishedRun], wide: TimeSliceAccuracy) -> GroupAccuracy:
    found = GroupAccuracy(wide=wide)
    for run in runs:
        found.learn(run.question, run.ratio)
    return found
