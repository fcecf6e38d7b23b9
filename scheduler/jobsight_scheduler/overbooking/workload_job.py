"""A job as it is offered, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from jobsight_predictor.question import Question

DEADLINE_FACTOR = 5.0
"""Deadline after the release, as a multiple of the requested time (Birkenheuer, Brinkmann and Karl 2010)."""


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """A job offered at ``submitted_h``. Planners see everything but ``run_h``, its run time if nothing stops it."""

    job: int
    question: Question
    nodes: int
    requested_h: float
    submitted_h: float
    release_h: float
    deadline_h: float
    run_h: float


@dataclass(frozen=True, slots=True)
class AcceptedJob:
    """A job that was accepted and has ended. ``pof`` is the probability of failure predicted at its acceptance.

    ``is_overbooked``: its gap was shorter than its requested time. ``was_killed``: it ran into its limit; otherwise
    ``node_failed``: one of its nodes was down. ``moves`` is how often it was migrated.
    """

    job: int
    nodes: int
    charge: float
    penalty: float
    requested_h: float
    planned_h: float
    started_h: float
    ended_h: float
    pof: float
    is_overbooked: bool
    was_killed: bool
    node_failed: bool
    moves: int

    @property
    def has_succeeded(self) -> bool:
        """Neither killed nor on a node that failed."""
        return not (self.was_killed or self.node_failed)

    @property
    def profit(self) -> float:
        """The charge, or minus the penalty."""
        return self.charge if self.has_succeeded else -self.penalty
