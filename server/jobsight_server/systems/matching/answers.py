"""What a batch is answered with, as the API sends it; the shape is that of ``jobsight match --json``, and more."""

from __future__ import annotations

from jobsight_scheduler.matching.answer import Answer, Match
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.problem import Problem
from jobsight_server.record import Record
from jobsight_server.systems.matching.predicted import PredictedAmount

ELIGIBLE_LISTED = 1000


class MadeMatch(Match, frozen=True):
    """A whole match: instances by dependency. ``id`` and ``until`` are null in a dry run, which holds nothing."""

    id: int | None = None
    until: float | None = None


class EligibleResources(Record):
    """E(j, d): the resources that a dependency may use now; the first thousand are named."""

    job: str
    dependency: str
    count: int
    resources: list[str]


class TimeSpent(Record):
    """Where the time of the answer went in the server: reading the state, solving, storing the matches."""

    query_s: float = 0.0
    solve_s: float = 0.0
    store_s: float = 0.0


class BatchAnswer(Answer, frozen=True, kw_only=True):
    """A whole match or none for each job, how good that is, and how it was found.

    ``objective``, ``bound`` and ``gap`` are those of the first objective; ``rung`` is the solver that found it, on
    ``rows`` and ``columns``; ``failed`` are those that failed; ``conflicts`` counts matches that another request
    forestalled and that were made again.
    """

    matches: tuple[MadeMatch, ...]
    predicted: list[PredictedAmount]
    conflicts: int
    time: TimeSpent
    eligible: list[EligibleResources] | None = None


def eligible_resources(problem: Problem) -> list[EligibleResources]:
    """E(j, d) of every dependency of the batch."""
    eligibility = Eligibility(problem)
    found = []
    for at, chosen in zip(eligibility.dependencies, eligibility.eligible(), strict=True):
        members = eligibility.types[at.of.type].members[chosen]
        names = [problem.resources[position].name for position in members[:ELIGIBLE_LISTED]]
        found.append(EligibleResources(problem.jobs[at.job].name, at.of.name, len(members), names))
    return found
