"""EASY backfilling with another order of the queue: a policy is one function, the key that sorts jobs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from jobsight_predictor.arrays import Floats, Integers
from jobsight_scheduler.policies.base import JobRequests
from jobsight_scheduler.policies.easy import Easy


class EasyByKey(Easy):
    """Each scheduling pass sorts the waiting jobs by ``keys``, the least first, then by number. They start in this
    order until one does not fit; that one gets a reservation by requested times, and others may jump ahead if they end
    before it or need only spare processors.

    ``need``, ``requested_s`` and ``submit_s`` are arrays of shape (jobs,); ``submit_s`` holds the submissions so far.
    The order changes with time, so a reservation is a promise for this pass only, and a job may starve if its key never
    becomes the least.
    """

    def __init__(self, requests: JobRequests) -> None:
        super().__init__(requests)
        self.need: Integers = np.array(requests.processors, dtype=np.int64)
        self.requested_s: Floats = np.array(requests.estimate_s, dtype=np.float64)
        self.submit_s: Floats = np.zeros(len(self.need))
        self.waiting: list[int] = []

    @abstractmethod
    def keys(self, now: float, jobs: Integers) -> Floats:
        """Return the key of each of ``jobs``, which wait at ``now``; shape (jobs,)."""

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.machine.expire(now)
        self.submit_s[job] = now
        self.waiting.append(job)
        return self._pass(now)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.machine.end(now, job)
        return self._pass(now)

    def _pass(self, now: float) -> list[int]:
        machine = self.machine
        jobs = np.array(self.waiting, dtype=np.int64)
        if not len(jobs) or self.need[jobs].min() > machine.free:
            return []
        line = jobs[np.lexsort((jobs, self.keys(now, jobs)))].tolist()
        begun: list[int] = []
        for job in line:
            if (where := machine.find_first(job)) is None:
                break
            machine.start(now, job, where)
            begun.append(job)
        if len(begun) < len(line) and machine.free:
            machine.reserve(line[len(begun)])
            begun += machine.fill(now, line[len(begun) + 1 :])
        started = set(begun)
        self.waiting = [job for job in self.waiting if job not in started]
        return begun
