"""EASY++: EASY with predicted run times (Tsafrir, Etsion and Feitelson 2007)."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import ClassVar

from jobsight_scheduler.policies.base import NEVER, JobRequests
from jobsight_scheduler.policies.block_queue import BlockQueue
from jobsight_scheduler.policies.easy import Easy
from jobsight_scheduler.policies.placement import UNKNOWN
from jobsight_scheduler.prediction import Predictor, expected_run_s

MINUTE_S, HOUR_S = 60.0, 3600.0
CORRECTIONS_S = (
    *(minutes * MINUTE_S for minutes in (1, 5, 15, 30)),
    *(hours * HOUR_S for hours in (1, 2, 5, 10, 20, 50, 100)),
)
"""Additions to a job's first prediction when the job outruns it the first, second, ... time; then its request."""


class EasyPlus(Easy):
    """Schedules by predictions; requests still decide when a job is killed. Backfills the shortest prediction first.

    A job that outruns its prediction is expected to end at its first prediction plus the next of the published
    increments, its request at most. A correction precedes anything else at that instant, moves no job by itself, and
    leaves out jobs that end then. It may move the reservation of the head, which is no promise, unlike EASY's.
    """

    name: ClassVar[str] = "easy++"

    def __init__(self, requests: JobRequests, run_times: Predictor, rank: Sequence[int] = ()) -> None:
        super().__init__(requests, rank)
        self.run_times = run_times
        self.predicted_s = self.machine.estimate_s = list(requests.estimate_s)
        self.order: deque[int] = deque()  # as of EASY's queue; backfilled jobs are skipped
        self.backfilled: set[int] = set()
        self.queue = BlockQueue(self.processors, self.predicted_s, lambda job: (self.predicted_s[job], job))
        self.started: dict[int, float] = {}
        self.corrected: dict[int, int] = {}  # running job -> how often
        self.due: list[tuple[float, int]] = []  # heap of (end of a prediction below the request, job), some outdated

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.predicted_s[job] = expected_run_s(self.run_times.forecast(job), self.estimate_s[job])
        self.machine.expire(now)
        if job in self.backfilled:  # submitted again: its old place has not come up yet
            self.backfilled.remove(job)
            self.order.remove(job)
        self.queue.add(job)
        if self.rank:
            insort(self.order, job, key=self.rank.__getitem__)
        else:
            self.order.append(job)
        return self._pass(now)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.run_times.learn(job, now - self.started.pop(job))
        self.corrected.pop(job, None)
        self.machine.end(now, job)
        return self._pass(now)

    def withdraw(self, job: int) -> None:
        super().withdraw(job)
        self.order.remove(job)

    def woken(self, now: float) -> Sequence[int]:
        expires = self.machine.expires
        while self.due and self.due[0][0] <= now:
            end, job = heappop(self.due)
            if expires.get(job) != end or job in self.ending:
                continue
            times = self.corrected.get(job, 0)
            self.corrected[job] = times + 1
            more = CORRECTIONS_S[times] if times < len(CORRECTIONS_S) else NEVER
            length = min(self.predicted_s[job] + more, self.estimate_s[job])
            self.machine.expect(job, self.started[job] + length)
            self._watch(job, length)
        self._next_wake()
        return ()

    def _watch(self, job: int, length: float) -> None:
        if length < self.estimate_s[job]:
            heappush(self.due, (self.started[job] + length, job))

    def _next_wake(self) -> None:
        due, expires = self.due, self.machine.expires
        while due and expires.get(due[0][1]) != due[0][0]:
            heappop(due)
        self.wake_s = due[0][0] if due else NEVER

    def _head(self) -> int | None:
        while self.order and self.order[0] in self.backfilled:
            self.backfilled.remove(self.order.popleft())
        return self.order[0] if self.order else None

    def _pass(self, now: float) -> list[int]:
        machine = self.machine
        begun: list[int] = []
        while (head := self._head()) is not None and (where := machine.find_first(head)) is not None:
            begun.append(self.order.popleft())
            self.queue.remove(head)
            machine.start(now, head, where)
        machine.shadow_s = UNKNOWN
        if head is not None and machine.free:
            machine.reserve(head)
            filled = self._fill(now)
            self.backfilled.update(filled)
            begun += filled
        for job in begun:
            self.started[job] = now
            self._watch(job, self.predicted_s[job])
        self._next_wake()
        return begun
