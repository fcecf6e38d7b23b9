"""What every policy is: told of submissions and ends, it says which jobs start now."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jobsight_predictor.question import Question

NEVER = float("inf")


class QueueTooLongError(RuntimeError):
    """The queue has grown so long that the policy would not come to an end within reason."""


@dataclass(frozen=True, slots=True)
class JobRequests:
    """All that a policy knows of the jobs, by job index: what they asked for. How long they run is not here.

    ``estimate_s`` is the time after which a job is killed. ``capacity`` is the number of processors of the machine.
    ``questions`` is what a predictor may know of each job; empty where nobody is to be asked.
    """

    capacity: int
    processors: Sequence[int]
    estimate_s: Sequence[float]
    questions: Sequence[Question] = ()


class Policy(ABC):
    """Decides which waiting jobs start. Each call is one scheduling pass and returns those that start at ``now``.

    At one instant the engine calls ``woken``, then ``submitted`` for each submission in queue order, then ``ended``
    for each end in the order in which those jobs were started. A job whose estimate expires at ``now`` counts as
    ended in each of them (docs/definitions.md, Order of events).
    """

    name: ClassVar[str]

    wake_s: float = NEVER
    """When the policy wants to be woken, if nothing happens before."""

    def __init__(self, requests: JobRequests) -> None:
        self.capacity = requests.capacity
        self.processors = requests.processors
        self.estimate_s = requests.estimate_s

    @abstractmethod
    def submitted(self, now: float, job: int) -> Sequence[int]:
        """A job came; returns the jobs that start now, in the order of the decision."""

    @abstractmethod
    def ended(self, now: float, job: int) -> Sequence[int]:
        """A running job is over; returns the jobs that start now."""

    def woken(self, now: float) -> Sequence[int]:
        """It is ``wake_s``; returns the jobs that start now."""
        raise NotImplementedError(f"{self.name} asked for no wake at {now}")

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that it remembers, as values that JSON can carry."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what ``state`` gave, in a policy made of the same requests."""
