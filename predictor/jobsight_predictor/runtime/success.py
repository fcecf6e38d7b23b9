"""Probability of success of a job in a gap: PoS = P_available * P_executable * P_success."""

from __future__ import annotations

from dataclasses import dataclass

from .accuracy import RuntimeAccuracy
from .machine_failure import MachineFailure


@dataclass(frozen=True, slots=True)
class SuccessProbability:
    """The three factors, each 0..1: nodes are up at the start, the job ends within the gap, no node fails meanwhile."""

    available: float
    executable: float
    survives: float

    @property
    def pos(self) -> float:
        """Probability of success."""
        return self.available * self.executable * self.survives

    @property
    def pof(self) -> float:
        """Probability of failure, 1 - PoS."""
        return 1.0 - self.pos

    def opportunity(self, charge: float) -> float:
        """PoS times the charge."""
        return self.pos * charge

    def risk(self, penalty: float) -> float:
        """PoF times the penalty."""
        return self.pof * penalty


def machine_factors(
    machine: MachineFailure, nodes: int, requested_h: float, accuracy: RuntimeAccuracy | None = None
) -> tuple[float, float]:
    """P_available and P_success; the latter over the whole requested time as published, or, with ``accuracy``, as an
    expectation over run times."""
    available = machine.available(nodes)
    if accuracy is None:
        return available, machine.survives(nodes, requested_h)
    return available, machine.survives_run(nodes, requested_h, accuracy)


def in_empty_gap(
    machine: MachineFailure, nodes: int, requested_h: float, gap_h: float, accuracy: RuntimeAccuracy
) -> SuccessProbability:
    """A job that starts at the beginning of a gap of ``gap_h`` hours with no job before it.

    Raises:
        ValueError: the requested time or the number of nodes is not positive.
    """
    if not (requested_h > 0.0 and nodes > 0):
        raise ValueError(f"{nodes} nodes for {requested_h} hours: give positive numbers")
    available, survives = machine_factors(machine, nodes, requested_h)
    return SuccessProbability(available, float(accuracy.within(gap_h / requested_h)), survives)
