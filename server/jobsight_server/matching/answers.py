"""What a batch is answered with, as the API sends it; the shape is that of ``jobsight match --json``, and more."""

from __future__ import annotations

from collections.abc import Sequence

from jobsight_scheduler.matching.answer import Answer, ObjectiveValue, Unmatched
from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.problem import Problem
from jobsight_server.matching.predicted import PredictedAmount
from jobsight_server.record import Record

ELIGIBLE_LISTED = 1000


class MadeMatch(Record):
    """A whole match: instances by dependency. ``id`` and ``until`` are null in a dry run, which holds nothing."""

    job: str
    resources: dict[str, tuple[str, ...]]
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


class BatchAnswer(Record):
    """A whole match or none for each job, how good that is, and how it was found.

    ``objective``, ``bound`` and ``gap`` are those of the first objective; ``rung`` is the solver that found it, on
    ``rows`` and ``columns``; ``conflicts`` counts matches that another request forestalled and that were made again.
    """

    status: str
    rung: str
    objective: float
    bound: float | None
    gap: float | None
    cpu_s: float
    matches: list[MadeMatch]
    unmatched: list[Unmatched]
    rows: int
    columns: int
    objectives: tuple[ObjectiveValue, ...]
    warnings: tuple[str, ...]
    predicted: list[PredictedAmount]
    conflicts: int
    time: TimeSpent
    eligible: list[EligibleResources] | None = None


def batch_answer(
    answer: Answer,
    matches: list[MadeMatch],
    unmatched: Sequence[Unmatched],
    predicted: list[PredictedAmount],
    conflicts: int,
    time: TimeSpent,
) -> BatchAnswer:
    """The record for ``answer``, with these matches and these jobs without one."""
    own = {"matches": matches, "unmatched": list(unmatched), "predicted": predicted, "conflicts": conflicts}
    shared = {name: getattr(answer, name) for name in answer.__slots__ if name in BatchAnswer.__struct_fields__}
    return BatchAnswer(**shared | own | {"time": time})


def eligible_resources(problem: Problem) -> list[EligibleResources]:
    """E(j, d) of every dependency of the batch."""
    eligibility = Eligibility(problem)
    found = []
    for at, chosen in zip(eligibility.dependencies, eligibility.eligible(), strict=True):
        members = eligibility.types[at.of.type].members[chosen]
        names = [problem.resources[position].name for position in members[:ELIGIBLE_LISTED]]
        found.append(EligibleResources(problem.jobs[at.job].name, at.of.name, len(members), names))
    return found
