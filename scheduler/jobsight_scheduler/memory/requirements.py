"""How a simulation chooses the memory of a job's nodes: by an estimator, or by the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from jobsight_predictor.estimators.base import Estimator, JobOutcome, SystemState

from .jobs import MemoryJobs, numbered


class Requirements(ABC):
    """The memory to ask for each job, by its index; at most its request."""

    sees_system = False
    """Whether the estimate depends on the state of the cluster."""

    @abstractmethod
    def ask(self, job: int, system: SystemState | None) -> float:
        """The memory in bytes per node that the job's next attempt asks for."""

    @abstractmethod
    def learn(self, job: int, outcome: JobOutcome) -> None:
        """Take in how an attempt ended."""

    @abstractmethod
    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        """A number for each job; jobs with the same number and group always need the same."""


class Estimated(Requirements):
    """Uses an estimator. With ``explicit`` feedback it also learns what a finished job used."""

    def __init__(self, estimator: Estimator, jobs: MemoryJobs, *, explicit: bool = False) -> None:
        self._estimator = estimator
        self.sees_system = estimator.sees_system
        self._questions = jobs.questions
        self._requested = jobs.requested_bytes.tolist()
        self._used = [None if used != used else used for used in jobs.used_bytes.tolist()]
        self._explicit = explicit

    def ask(self, job: int, system: SystemState | None) -> float:
        return self._estimator.estimate(self._questions[job], self._requested[job], system)

    def learn(self, job: int, outcome: JobOutcome) -> None:
        if self._explicit and not outcome.failed:
            outcome = outcome._replace(used=self._used[job])
        self._estimator.learn(self._questions[job], self._requested[job], outcome)

    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        kinds: list[int] = numbered(zip(jobs.questions, self._requested, strict=True)).tolist()
        return kinds


class Oracle(Requirements):
    """Knows what each job will use; gives the request if use is not recorded."""

    def __init__(self, jobs: MemoryJobs) -> None:
        unknown = np.isnan(jobs.used_bytes)
        self._need = np.where(unknown, jobs.requested_bytes, jobs.used_bytes).tolist()

    def ask(self, job: int, system: SystemState | None) -> float:
        return float(self._need[job])

    def learn(self, job: int, outcome: JobOutcome) -> None:
        """Does nothing."""

    def kinds(self, jobs: MemoryJobs) -> Sequence[int]:
        return range(len(jobs))
