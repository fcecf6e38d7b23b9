"""Simulation of nodes of several memory sizes: jobs that need more than they got fail and return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jobsight_papers.overprovisioning.cluster.jobs import MemoryJobs
from jobsight_papers.overprovisioning.cluster.nodes import Nodes
from jobsight_papers.overprovisioning.cluster.placement import NodePlacement
from jobsight_papers.overprovisioning.cluster.policies import MemoryPolicy
from jobsight_papers.overprovisioning.estimators.base import AttemptOutcome, SystemState
from jobsight_scheduler.policies.base import NEVER
from jobsight_scheduler.simulator.event_loop import Simulation

Retry = Literal["request", "estimate"]
"""Memory for the next attempt of a failed job: its request, or the estimate above the memory that failed."""


class Requirements(ABC):
    """The memory to reserve for each job, by its index; at most its request."""

    sees_system = False
    """Whether the estimate depends on the state of the cluster."""

    @abstractmethod
    def ask(self, job: int, system: SystemState | None) -> float:
        """Return the memory, in bytes per node, for the job's next attempt."""

    @abstractmethod
    def learn(self, job: int, outcome: AttemptOutcome) -> None:
        """Take in how an attempt ended."""

    @abstractmethod
    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        """Return a number for each job; jobs with the same number and group always need the same."""


class MemorySimulation(Simulation):
    """A run of ``jobs`` on ``nodes``.

    A job fails if it uses more than the smallest memory among its nodes, after a uniformly drawn fraction of its run
    time; it then returns to the head of the queue.
    """

    policy: MemoryPolicy

    def __init__(
        self,
        jobs: MemoryJobs,
        nodes: Nodes,
        make_policy: type[MemoryPolicy],
        requirements: Requirements,
        rng: np.random.Generator,
        retry: Retry = "request",
    ) -> None:
        self.jobs, self.nodes, self.retry = jobs, nodes, retry
        self._requirements = requirements
        self._requested = jobs.requested_bytes.tolist()
        self._used = jobs.used_bytes.tolist()
        self._part = rng.random(len(jobs)).tolist()  # of its run time, after which a job fails
        self._class_of_request = [bisect_left(nodes.memory_bytes, asked) for asked in self._requested]
        self._least = [0] * len(jobs)  # least class for the next attempt, by what failed
        self._running: dict[int, tuple[int, int, bool]] = {}  # job -> class asked for and got, whether it fails
        self._system_of: dict[int, SystemState] = {}  # job -> state of the cluster when its class was last chosen
        self._arrived = 0
        self.end_s: NDArray[np.float64] = np.full(len(jobs), NEVER)
        self.is_lowered = np.zeros(len(jobs), dtype=bool)
        self.failures = 0
        self.failed_node_s = 0.0
        self._placement = NodePlacement(nodes, jobs, requirements.kinds(jobs), self._needed)
        super().__init__(jobs.work, sum(nodes.nodes), make_policy, machine=self._placement)
        self._arrive, self._leave, self._lasts = self._submit_job, self._end, self._begin

    @property
    def attempts(self) -> int:
        """Number of starts."""
        return len(self._order)

    @property
    def ended(self) -> int:
        """Number of jobs that have ended."""
        return self.attempts - self.failures - len(self._running)

    def _needed(self, job: int) -> int:
        """Return the class of nodes that the job's next attempt needs."""
        most, least = self._class_of_request[job], self._least[job]
        if least >= most:
            return most
        system: SystemState | None = None
        if self._requirements.sees_system:
            waiting = self._arrived - self.ended - len(self._running)
            system = self._system_of[job] = SystemState(tuple(self.nodes.free), tuple(self.nodes.nodes), waiting)
        asked = self._requirements.ask(job, system)
        return min(max(bisect_left(self.nodes.memory_bytes, asked), least), most)

    def _submit_job(self, now: float, job: int) -> Sequence[int]:
        self._arrived += 1
        return self.policy.submitted(now, job)

    def _begin(self, job: int) -> float:
        smallest = min(self._placement.where[job])[0]
        fails = self._used[job] > self.nodes.memory_bytes[smallest]
        self._running[job] = self._placement.class_of[job], smallest, fails
        return self._run[job] * self._part[job] if fails else self._run[job]

    def _end(self, now: float, job: int) -> Sequence[int]:
        needed, smallest, fails = self._running.pop(job)
        memory = self.nodes.memory_bytes
        asked = min(memory[needed], self._requested[job])
        if fails:
            self.failures += 1
            self.failed_node_s += (now - self._starts[job]) * self.jobs.work.processors[job]
            self._least[job] = self._class_of_request[job] if self.retry == "request" else smallest + 1
        else:
            self.end_s[job] = now
            self.is_lowered[job] = needed < self._class_of_request[job]
        self._requirements.learn(
            job, AttemptOutcome(asked, memory[smallest], fails, None, self._system_of.pop(job, None))
        )
        return self.policy.returned(now, job) if fails else self.policy.ended(now, job)
