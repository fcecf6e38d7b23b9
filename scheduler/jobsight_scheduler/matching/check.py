"""Answers, and their check against the records of the batch: gangs whole, no capacity exceeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Literal, get_args

from msgspec import Struct

from jobsight_scheduler.matching.eligibility import Eligibility
from jobsight_scheduler.matching.problem import Capacity, MatchJob, Resource

Tier = Literal[
    "type", "predicate", "never-fits", "policy", "held", "gang", "outpriced", "reserved", "turn", "predicted"
]
"""The reason for a job without a match: the first of these that applies to one of its dependencies.

``type``: there is no resource of a type that it depends on. ``predicate``: no resource satisfies its predicate.
``never-fits``: not even an idle resource of those has the amounts. ``policy``: policies deny all that have, or their
state is too old. ``held``: it would fit if others held less. ``gang``: each dependency fits, all together do not.
``outpriced``: it fits alone; the batch is worth at least as much without it. ``reserved``: it fits, but not before the
start of a reservation for a job that was passed over too often. ``turn``: it fits, and is younger than those of the
round. ``predicted``: there is no forecast for a ``predicted`` amount.
"""


Status = Literal["feasible", "within 1e-6", "optimal"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""From the weakest on."""


class Match(Struct, frozen=True):
    """A whole match: the names of the instances for each dependency."""

    job: str
    resources: dict[str, tuple[str, ...]]


class Unmatched(Struct, frozen=True):
    """A job without a match, and the reason."""

    job: str
    tier: Tier
    reason: str


class ObjectiveValue(Struct, frozen=True):
    """The value of one objective, and its bound given the optima of those before; None if unknown."""

    name: str
    value: float
    bound: float | None
    gap: float | None


class Answer(Struct, frozen=True):
    """``objective``, ``bound`` and ``gap`` are those of the first objective; ``objectives`` has all.

    ``status`` is ``optimal`` if no better value of any of them is possible, and ``within 1e-6`` if none is
    better by more than a millionth of its bound. ``rung`` is the step of the ladder that found the matches,
    ``rows`` and ``columns`` are those of the integer program, ``bound`` is at least (of a minimum: at most) the
    optimum, ``gap`` their difference over the larger magnitude. ``failed`` are rungs that failed, with the error.
    """

    status: Status
    rung: str
    objective: float
    bound: float | None
    gap: float | None
    cpu_s: float
    matches: tuple[Match, ...]
    unmatched: tuple[Unmatched, ...]
    rows: int = 0
    columns: int = 0
    objectives: tuple[ObjectiveValue, ...] = ()
    warnings: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


_DOUBT = 1e-9


def faults(eligibility: Eligibility, matches: Iterable[Match]) -> dict[str, str]:
    """Return the faults by job; empty if all matches are valid.

    Of the jobs that exceed a capacity together, the later ones are at fault. The check shares only predicates and
    policies with the solvers.
    """
    resources = {resource.name: resource for resource in eligibility.problem.resources}
    jobs = {job.name: (index, job) for index, job in enumerate(eligibility.problem.jobs)}
    wrong: dict[str, str] = {}
    held: dict[tuple[str, str], list[tuple[str, float]]] = {}
    seen: set[str] = set()
    for match in matches:
        number, job = jobs.get(match.job, (0, None))
        if job is None or match.job in seen:
            wrong[match.job] = "is not a job of the batch" if job is None else "is matched twice"
            continue
        seen.add(match.job)
        if fault := _whole(job, match, resources) or _eligible(eligibility, number, match):
            wrong[match.job] = fault
            continue
        for dependency in job.dependencies:
            for kind, amount in dependency.amounts.items():
                if amount > 0.0:
                    for name in match.resources[dependency.name]:
                        held.setdefault((name, kind), []).append((job.name, amount))
    for (name, kind), entries in held.items():
        capacity = resources[name].capacities.get(kind, Capacity(0.0))
        amounts = [amount for _, amount in entries]
        while amounts and not holds(capacity, amounts):
            amounts.pop()
            wrong[entries[len(amounts)][0]] = f"{kind} of {name} is exceeded"
    return wrong


def holds(capacity: Capacity, amounts: list[float]) -> bool:
    """Return whether all ``amounts`` fit beside the use, exactly: as written in decimals, or as binary numbers.

    Exact numbers are only needed within a billionth of the total.
    """
    total = sum(amounts) + capacity.used
    if abs(total - capacity.total) > capacity.total * _DOUBT:
        return total < capacity.total
    return any(
        sum(map(exact, amounts)) <= exact(capacity.total) - exact(capacity.used)
        for exact in (Fraction, lambda value: Fraction(repr(value)))
    )


def _whole(job: MatchJob, match: Match, resources: Mapping[str, Resource]) -> str:
    if match.resources.keys() != {dependency.name for dependency in job.dependencies}:
        return f"dependencies {sorted(match.resources)} instead of all of the job's"
    for dependency in job.dependencies:
        chosen = match.resources[dependency.name]
        if len(chosen) != dependency.count or len(set(chosen)) != dependency.count:
            return f"{dependency.name}: {len(set(chosen))} distinct instances instead of {dependency.count}"
        if any(name not in resources or resources[name].type != dependency.type for name in chosen):
            return f"{dependency.name}: not all of {chosen} are of type {dependency.type}"
    return ""


def _eligible(eligibility: Eligibility, job: int, match: Match) -> str:
    of_class = eligibility.problem.jobs[job].job_class
    for number, chosen in zip(eligibility.numbers[job], eligibility.placement(job, match.resources), strict=True):
        dependency = eligibility.dependencies[number].of
        allowed, _ = eligibility.verdicts(dependency.type, of_class)
        if not (allowed & eligibility.satisfying(dependency, eligibility.problem.jobs[job]))[chosen].all():
            return f"{dependency.name}: not all of {match.resources[dependency.name]} are eligible"
    return ""
