"""A job's present request in the scheduler, and the interface to change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jobsight_server.accounting.command_output import CommandOutput
from jobsight_server.decision.evidence import Resource


@dataclass(frozen=True, slots=True)
class Amount:
    """A job's request of a resource: ``value`` bytes or seconds in the scheduler's ``parameter``.

    The job has it ``times``, on each node or processor; the scheduler takes multiples of ``step``.
    """

    parameter: str
    value: int
    times: int = 1
    step: int = 1

    @property
    def whole(self) -> float:
        """Return the value of the whole job."""
        return float(self.value * self.times)

    def for_whole(self, amount: float) -> int:
        """Return the least value that gives the whole job this amount."""
        each = self.step * self.times
        return max(int(-(-amount // each)) * self.step, self.step)


@dataclass(frozen=True, slots=True)
class PresentJob:
    """A job as the scheduler has it. ``start`` is None while it waits; a resource that cannot be changed is missing."""

    job_id: str
    user: str
    submitted: float
    start: float | None
    amounts: dict[Resource, Amount] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestChange:
    """A change from the present value to a new one; ``reason`` says why."""

    job: PresentJob
    resource: Resource
    old: Amount
    new: int
    reason: str


class SchedulerCommands(Protocol):
    """The commands of one scheduler. They run with argument lists, without a shell, and with ids of one form only.

    All raise CommandError for a command that fails or takes too long.
    """

    def look(self) -> dict[str, PresentJob]:
        """Return the waiting and running jobs whose requests can be changed, by id."""

    def exact(self, job: PresentJob, resource: Resource) -> Amount | None:
        """Return the job's request in the parameter that changes it; None if it has changed since, or is ambiguous."""

    def change(self, job: PresentJob, amount: Amount) -> None:
        """Give the job this amount."""


def run_command(arguments: Sequence[str], timeout_s: float, most: int = 1 << 20) -> bytes:
    """Return the output of a command.

    Raises:
        CommandError: it failed, took too long, or prints more than ``most`` bytes.
    """
    with CommandOutput(arguments, timeout_s) as output:
        return output.whole(most)
