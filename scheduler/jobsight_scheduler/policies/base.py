"""The base of all policies: informed of submissions and ends, they decide which jobs start now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jobsight_predictor.question import Question
from jobsight_scheduler.validator import Check

from .placement import NEVER as NEVER
from .placement import Placement
from .processors import Processors


class PolicyError(RuntimeError):
    """A policy that cannot be used, or a decision of it that cannot be carried out."""


class QueueTooLongError(RuntimeError):
    """The queue has grown too long for the policy to finish in reasonable time."""


@dataclass(frozen=True, slots=True)
class JobRequests:
    """Everything a policy knows about the jobs, by job index: what they requested. Their run times are not here.

    ``estimate_s`` is the time after which a job is killed. ``capacity`` is the number of processors of the machine.
    ``questions`` is what a predictor may know about each job; empty for policies that need none. ``machine`` is where
    jobs are placed; None is a machine of counted processors.
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

    rules: ClassVar[tuple[Check, ...]] = ()
    """What the validator checks in schedules of a policy of one's own, besides capacity and the jobs' own times."""

    wake_s: float = NEVER
    """When the policy wants to be woken if nothing happens before."""

    ending: Collection[int] = ()
    """Set before ``woken``: jobs that end at this instant, for which ``ended`` will be called later."""

    def __init__(self, requests: JobRequests) -> None:
        self.capacity = requests.capacity
        self.processors = requests.processors
        self.estimate_s = requests.estimate_s
        self.machine: Placement[Any] = requests.machine or Processors(
            requests.capacity, requests.processors, requests.estimate_s
        )

    @abstractmethod
    def submitted(self, now: float, job: int) -> Sequence[int]:
        """A job was submitted; returns the jobs that start now, in the order of the decision."""

    @abstractmethod
    def ended(self, now: float, job: int) -> Sequence[int]:
        """A running job is over; returns the jobs that start now."""

    def returned(self, now: float, job: int) -> Sequence[int]:
        """A running job has failed and is the first to wait; returns the jobs that start now."""
        raise NotImplementedError(f"{self.name} does not take back job {job}, which failed at {now}")

    def woken(self, now: float) -> Sequence[int]:
        """It is ``wake_s``; returns the jobs that start now."""
        raise NotImplementedError(f"{self.name} did not ask to be woken at {now}")

    def state(self) -> dict[str, Any]:
        """Everything it remembers, as JSON values. Only simulations that are saved need it."""
        raise NotImplementedError(f"{type(self).__name__} has no state() and restore()")

    def restore(self, state: dict[str, Any]) -> None:
        """Restores the result of ``state``, in a policy with the same requests."""
        raise NotImplementedError(f"{type(self).__name__} has no state() and restore()")

    @property
    def keeps_state(self) -> bool:
        """Whether a simulation with this policy can be saved."""
        own = type(self)
        return own.state is not Policy.state and own.restore is not Policy.restore
