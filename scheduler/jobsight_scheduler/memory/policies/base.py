"""The base of policies for nodes of several memory sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from jobsight_scheduler.memory.nodes import Nodes, Taken

NEVER = float("inf")

Start = tuple[int, int, Taken]
"""A job that starts now: (job, class that it needs, nodes that it takes)."""


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """Everything a policy knows, by job index.

    ``estimate_s`` is the time after which a job is killed. ``needed`` gives the class of nodes that a job needs at
    this moment; it may change once a job of the same ``group`` has ended. Jobs of one group with the same number in
    ``kinds`` need the same.
    """

    nodes: Nodes
    count: Sequence[int]
    estimate_s: Sequence[float]
    group: Sequence[int]
    kinds: Callable[[], Sequence[int]]
    needed: Callable[[int], int]


class MemoryPolicy(ABC):
    """Decides which waiting jobs start. Each call is one scheduling pass and takes and gives back the nodes.

    At one instant wakes come before submissions, submissions before ends (docs/definitions.md, Order of events). A
    job that failed ``returns`` to the head of the queue.
    """

    name: ClassVar[str]

    wake_s: float = NEVER
    """When the policy wants to be woken if nothing happens before."""

    def __init__(self, given: PolicyInput) -> None:
        self.nodes, self.count, self.estimate_s, self.needed = given.nodes, given.count, given.estimate_s, given.needed

    @abstractmethod
    def submitted(self, now: float, job: int) -> Sequence[Start]:
        """A job was submitted; the jobs that start now, in the order of the decision."""

    @abstractmethod
    def ended(self, now: float, job: int, taken: Taken, *, returns: bool) -> Sequence[Start]:
        """A running job has ended, or has failed and ``returns``; the jobs that start now."""

    def woken(self, now: float) -> Sequence[Start]:
        """It is ``wake_s``; the jobs that start now."""
        raise NotImplementedError(f"{self.name} did not ask to be woken at {now}")
