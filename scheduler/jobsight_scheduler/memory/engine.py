"""The event loop for nodes of several memory sizes: jobs that need more than they got fail and return."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.estimators.base import Outcome, SystemState

from .jobs import MemoryJobs
from .nodes import Nodes, Taken
from .policies.base import NEVER, MemoryPolicy, PolicyInput, Start
from .requirements import Requirements

Retry = Literal["request", "estimate"]
"""What a failed job asks for next: its request, or the estimate again, above what failed."""


class MemorySimulation:
    """Runs ``jobs`` on ``nodes``. At one instant wakes come before submissions, submissions before ends; ends are in
    the order of the starts.

    A job fails if it uses more than the smallest memory among its nodes, after a uniformly drawn fraction of its run
    time; it then returns to the head of the queue.
    """

    def __init__(
        self,
        jobs: MemoryJobs,
        nodes: Nodes,
        make_policy: Callable[[PolicyInput], MemoryPolicy],
        requirements: Requirements,
        rng: np.random.Generator,
        retry: Retry = "request",
        *,
        failures_cost: bool = True,
    ) -> None:
        """``failures_cost``: whether a failing job runs until it fails, or returns at once."""
        self.jobs, self.nodes, self.retry = jobs, nodes, retry
        self._requirements = requirements
        self._requested = jobs.requested_bytes.tolist()
        self._used = jobs.used_bytes.tolist()
        self._run = jobs.run_s.tolist()
        self._submit = [*jobs.submit_s.tolist(), NEVER]
        self._part = (rng.random(len(jobs)) * failures_cost).tolist()  # of its run time, after which a job fails
        self._class_of_request = [bisect_left(nodes.memory_bytes, asked) for asked in self._requested]
        self._least = [0] * len(jobs)  # least class for the next attempt, by what failed
        self._ends: list[tuple[float, int, int]] = [(NEVER, -1, -1)]  # (end, number of the start, job)
        self._running: dict[int, tuple[int, Taken, bool]] = {}  # job -> class asked for, its nodes, whether it fails
        self._system_of: dict[int, SystemState] = {}  # job -> the cluster when its class was last chosen
        self._submitted = 0
        self.now = 0.0
        self.start_s: NDArray[np.float64] = np.full(len(jobs), NEVER)
        self.end_s: NDArray[np.float64] = np.full(len(jobs), NEVER)
        self.is_lowered = np.zeros(len(jobs), dtype=bool)
        self.attempts = 0
        self.failures = 0
        self.failed_node_s = 0.0
        self.policy = make_policy(
            PolicyInput(
                nodes,
                jobs.nodes.tolist(),
                jobs.estimate_s.tolist(),
                jobs.group.tolist(),
                partial(requirements.kinds, jobs),
                self._needed,
            )
        )

    @property
    def done(self) -> bool:
        """Whether every job has ended."""
        return self._submitted == len(self.jobs) and not self._running

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return self.attempts - self.failures - len(self._running)

    def advance(self, events: int) -> bool:
        """Handles the next ``events`` events, or as many as there are; returns ``done``."""
        submit, ends, policy = self._submit, self._ends, self.policy
        for _ in range(events):
            coming, next_end = submit[self._submitted], ends[0][0]
            if policy.wake_s <= coming and policy.wake_s <= next_end and policy.wake_s < NEVER:
                now = policy.wake_s
                begun = policy.woken(now)
            elif coming <= next_end:
                if coming == NEVER:
                    break
                now = coming
                self._submitted += 1
                begun = policy.submitted(now, self._submitted - 1)
            else:
                now, _, job = heappop(ends)
                begun = self._end(now, job)
            self.now = now
            for job, needed, taken in begun:
                self._start(now, job, needed, taken)
        return self.done

    def _needed(self, job: int) -> int:
        """The class of nodes that the job's next attempt needs."""
        most, least = self._class_of_request[job], self._least[job]
        if least >= most:
            return most
        system: SystemState | None = None
        if self._requirements.sees_system:
            waiting = self._submitted - self.ended - len(self._running)
            system = self._system_of[job] = SystemState(tuple(self.nodes.free), tuple(self.nodes.nodes), waiting)
        asked = self._requirements.ask(job, system)
        return min(max(bisect_left(self.nodes.memory_bytes, asked), least), most)

    def _start(self, now: float, job: int, needed: int, taken: Taken) -> None:
        given = self.nodes.memory_bytes[min(taken)[0]]
        fails = self._used[job] > given
        run = self._run[job] * self._part[job] if fails else self._run[job]
        self.start_s[job] = now
        self._running[job] = (needed, taken, fails)
        heappush(self._ends, (now + run, self.attempts, job))
        self.attempts += 1

    def _end(self, now: float, job: int) -> Sequence[Start]:
        needed, taken, fails = self._running.pop(job)
        memory, smallest = self.nodes.memory_bytes, min(taken)[0]
        asked = min(memory[needed], self._requested[job])
        if fails:
            self.failures += 1
            self.failed_node_s += (now - self.start_s[job]) * self.jobs.nodes[job]
            self._least[job] = self._class_of_request[job] if self.retry == "request" else smallest + 1
        else:
            self.end_s[job] = now
            self.is_lowered[job] = needed < self._class_of_request[job]
        self._requirements.learn(job, Outcome(asked, memory[smallest], fails, None, self._system_of.pop(job, None)))
        return self.policy.ended(now, job, taken, returns=fails)
