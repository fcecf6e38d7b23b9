"""Distribution of run time over requested time of a job, from the finished jobs of a database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection, Select, select

from jobsight_predictor.question import Question
from jobsight_predictor.runtime.accuracy import GRID, PRIOR_JOBS, GroupAccuracy, RuntimeAccuracy, TimeSliceAccuracy
from jobsight_server.forecasts.request import job_question
from jobsight_server.storage.engine import fetch
from jobsight_server.storage.schema import jobs
from jobsight_server.storage.schema.jobs import ASKED_PROCESSORS

OF_USER = 500
"""Number of a user's jobs to read, the last to end."""

OF_CLUSTER = 2000
"""Number of a cluster's jobs to read, the last to end."""

# Requested processors, as in questions; granted time, since an ended run is over whatever shortened it.
_LAST = (
    select(*jobs.c["user", "name", "queue"], ASKED_PROCESSORS, *jobs.c["requested_walltime_s", "start", "end"])
    .where(jobs.c.state == "ended", jobs.c.requested_walltime_s > 0, jobs.c.end >= jobs.c.start)
    .order_by(jobs.c.end.desc())
)

History = TypeVar("History", TimeSliceAccuracy, GroupAccuracy)

NO_HISTORY = "no history"

_WHOLE = np.where(GRID < 1.0, 0.0, 1.0)
_KEPT_S = 30.0
_MOST_KEPT = 256


class RunTimes:
    """Distributions for jobs: of the user's similar jobs, mixed with wider groups of the cluster's.

    It stores nothing: it reads the last jobs of the user and of the cluster, and keeps them for half a minute.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str | None], tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def of(self, connection: Connection, cluster: str, job: Question) -> RuntimeAccuracy:
        """Return the distribution; in a cluster without data, jobs count as using their whole requested time."""
        last = _LAST.where(jobs.c.cluster == cluster)
        wide = self._get((cluster, None), lambda: _taught(TimeSliceAccuracy(), connection, last.limit(OF_CLUSTER)))
        user = job.user
        if user is None:
            return _cautious(wide.distribution(job), wide)
        of_user = last.where(jobs.c.user == user).limit(OF_USER)
        own = self._get((cluster, user), lambda: _taught(GroupAccuracy(wide=wide), connection, of_user))
        return _cautious(own.distribution(job), wide)

    def _get(self, key: tuple[str, str | None], make: Callable[[], History]) -> History:
        now = time.monotonic()
        with self._lock:
            known = self._kept.get(key)
        if known is not None and now - known[0] < _KEPT_S:
            history: History = known[1]
            return history
        made = make()
        with self._lock:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = now, made
        return made


def _cautious(found: RuntimeAccuracy, wide: TimeSliceAccuracy) -> RuntimeAccuracy:
    """Return ``found`` with ``PRIOR_JOBS`` more jobs that used their whole request: a few jobs prove little."""
    n = wide.distribution(Question()).jobs
    if n == 0 and found.jobs == 0:
        return RuntimeAccuracy(_WHOLE, 0.0, NO_HISTORY)
    return RuntimeAccuracy((n * found.cdf + PRIOR_JOBS * _WHOLE) / (n + PRIOR_JOBS), found.jobs, found.source)


def _taught(history: History, connection: Connection, query: Select[Any]) -> History:
    """Teach it jobs as known at their submission, and their run time / requested time, in order of their end."""
    for user, name, queue, processors, requested_s, start, end in reversed(fetch(connection, query, {})):
        job = job_question(user, name, queue, processors, None, requested_s)
        history.learn(job, (end - start) / requested_s)
    return history
