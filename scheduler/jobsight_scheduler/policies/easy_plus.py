"""EASY++: EASY with predicted run times (Tsafrir, Etsion and Feitelson 2007)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

from jobsight_scheduler.prediction import Predictor, expected_run_s

from .base import NEVER, JobRequests
from .block_queue import BlockQueue
from .easy import UNKNOWN, Easy

MINUTE_S, HOUR_S = 60.0, 3600.0
CORRECTIONS_S = (
    *(minutes * MINUTE_S for minutes in (1, 5, 15, 30)),
    *(hours * HOUR_S for hours in (1, 2, 5, 10, 20, 50, 100)),
)
"""Increments of the prediction of a job that outruns it, the first, second, ... time; finally its request."""


class EasyPlus(Easy):
    """Schedules by predictions; requests still decide when a job is killed. Backfills the shortest prediction first.

    When a job outruns its prediction, the prediction is corrected before anything else happens at that instant. Each
    correction adds one of the published increments. A corrected prediction may move the reservation of the head:
    unlike EASY's, it is not a promise.
    """

    name: ClassVar[str] = "easy++"

    def __init__(self, requests: JobRequests, run_times: Predictor) -> None:
        super().__init__(requests)
        self.run_times = run_times
        self.requested_s = requests.estimate_s
        self.predicted_s = list(requests.estimate_s)
        self.estimate_s = self.predicted_s
        self.order: deque[int] = deque()  # by submission; backfilled jobs are skipped
        self.backfilled: set[int] = set()
        self.queue = BlockQueue(self.processors, self.predicted_s, lambda job: (self.predicted_s[job], job))
        self.started: dict[int, float] = {}
        self.corrected: dict[int, int] = {}  # running job -> how often
        self.due: list[tuple[float, int]] = []  # heap of (end of a prediction below the request, job), some outdated

    def submitted(self, now: float, job: int) -> Sequence[int]:
        self.predicted_s[job] = expected_run_s(self.run_times, job, self.requested_s[job])
        self._expire(now)
        self.queue.add(job)
        self.order.append(job)
        return self._pass(now)

    def ended(self, now: float, job: int) -> Sequence[int]:
        self.run_times.learn(job, now - self.started.pop(job))
        self.corrected.pop(job, None)
        self._end(now, job)
        self._next_wake()
        return self._pass(now)

    def woken(self, now: float) -> Sequence[int]:
        while self.due and self.due[0][0] <= now:
            end, job = heappop(self.due)
            if self.expires.get(job) != end:
                continue
            times = self.corrected.get(job, 0)
            self.corrected[job] = times + 1
            more = CORRECTIONS_S[times] if times < len(CORRECTIONS_S) else NEVER
            self.predicted_s[job] = min(self.predicted_s[job] + more, self.requested_s[job])
            del self.expected[bisect_left(self.expected, (end, job))]
            self._expect(job)
        self._expire(now)
        self._next_wake()
        return self._pass(now)

    def _start(self, now: float, job: int) -> None:
        self.free -= self.processors[job]
        self.started[job] = now
        self._expect(job)
        self._next_wake()

    def _expect(self, job: int) -> None:
        end = self.expires[job] = self.started[job] + self.predicted_s[job]
        insort(self.expected, (end, job))
        if self.predicted_s[job] < self.requested_s[job]:
            heappush(self.due, (end, job))

    def _next_wake(self) -> None:
        while self.due and self.expires.get(self.due[0][1]) != self.due[0][0]:
            heappop(self.due)
        self.wake_s = self.due[0][0] if self.due else NEVER

    def _head(self) -> int | None:
        while self.order and self.order[0] in self.backfilled:
            self.backfilled.remove(self.order.popleft())
        return self.order[0] if self.order else None

    def _pass(self, now: float) -> list[int]:
        begun: list[int] = []
        while (head := self._head()) is not None and self.processors[head] <= self.free:
            begun.append(self.order.popleft())
            self.queue.remove(head)
            self._start(now, head)
        self.shadow_s = UNKNOWN
        if head is not None and self.free:
            self._reserve(head)
            filled = self._fill(now, self.queue)
            self.backfilled.update(filled)
            begun += filled
        return begun

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "order": list(self.order),
            "backfilled": sorted(self.backfilled),
            "predicted_s": [(job, self.predicted_s[job]) for job in (*self.queue, *self.started)],
            "started": list(self.started.items()),
            "corrected": list(self.corrected.items()),
            "due": self.due,
            "run_times": self.run_times.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        for job, predicted in state["predicted_s"]:
            self.predicted_s[job] = predicted
        super().restore(state)
        self.order, self.backfilled = deque(state["order"]), set(state["backfilled"])
        self.started, self.corrected = dict(state["started"]), dict(state["corrected"])
        self.due = [(end, job) for end, job in state["due"]]
        heapify(self.due)
        self.run_times.restore(state["run_times"])
        self._next_wake()
