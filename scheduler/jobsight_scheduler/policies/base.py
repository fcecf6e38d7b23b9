"""The base of all policies: at submissions and ends, they decide which jobs start now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jobsight_predictor.question import Question
from jobsight_scheduler.policies.placement import NEVER as NEVER
from jobsight_scheduler.policies.placement import Placement
from jobsight_scheduler.policies.processors import Processors


class QueueTooLongError(RuntimeError):
    """The queue has grown too long for the policy to finish in reasonable time."""


@dataclass(frozen=True, slots=True)
class JobRequests:
    """Requests of the jobs, by job index: everything that a policy knows of them. Their run times are not here.

    A job is killed after ``estimate_s``. ``capacity`` is the number of processors of the machine. ``questions`` are
    those to a predictor, one for each job; empty for policies that need none. ``machine`` places jobs; None is a
    machine of counted processors.
    """

    capacity: int
    processors: Sequence[int]
    estimate_s: Sequence[float]
    questions: Sequence[Question] = ()
    machine: Placement[Any] | None = None


class Policy(ABC):
    """Decides which waiting jobs start. Each call is one scheduling pass and returns those that start at ``now``.

    At one instant the engine calls ``woken``, then ``submitted`` for each submission in queue order, then ``ended``
    for each end in the order in which those jobs were started. A job whose estimate expires at ``now`` counts as
    ended in each of them (docs/use/definitions.md, Order of events).
    """

    name: ClassVar[str]

    wake_s: float = NEVER
    """Time at which to wake the policy if nothing happens before."""

    ending: Collection[int] = ()
    """Jobs that end at this instant, with ``ended`` still to be called; set before ``woken``."""

    def __init__(self, requests: JobRequests) -> None:
        self.capacity = requests.capacity
        self.processors = requests.processors
        self.estimate_s = requests.estimate_s
        self.machine: Placement[Any] = requests.machine or Processors(
            requests.capacity, requests.processors, requests.estimate_s
        )

    @abstractmethod
    def submitted(self, now: float, job: int) -> Sequence[int]:
        """Take in a submission; return the jobs that start now, in the order of the decision."""

    @abstractmethod
    def ended(self, now: float, job: int) -> Sequence[int]:
        """Take in the end of a running job; return the jobs that start now."""

    def woken(self, now: float) -> Sequence[int]:
        """Act at ``wake_s``; return the jobs that start now."""
        raise NotImplementedError(f"{self.name} did not ask to be woken at {now}")

    def withdraw(self, job: int) -> None:
        """Take a waiting job out of the queue."""
        raise NotImplementedError(f"{self.name} keeps its jobs in the queue until they start")

    def reconsider(self, now: float) -> Sequence[int]:
        """Return the jobs that start now because the machine has changed, without a submission or an end."""
        raise NotImplementedError(f"{self.name} runs on a machine that stays as it is")
