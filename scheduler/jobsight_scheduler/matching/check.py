"""Checks matches against the records of the batch, whatever found them: gangs whole, no capacity exceeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from .answer import Match
from .eligibility import Eligibility
from .problem import Capacity, MatchJob, Problem, Relation, Resource

_DOUBT = 1e-9


def faults(problem: Problem, matches: Iterable[Match], eligibility: Eligibility | None = None) -> dict[str, str]:
    """What is wrong, by job; empty where every match may leave. Of the jobs that share a capacity that is exceeded,

    the later ones are at fault. With ``eligibility``, predicates and policies are checked as well.
    """
    resources = {resource.name: resource for resource in problem.resources}
    jobs = {job.name: job for job in problem.jobs}
    positions = {} if eligibility is None else _positions(eligibility)
    wrong: dict[str, str] = {}
    held: dict[tuple[str, str], list[tuple[str, float]]] = {}
    seen: set[str] = set()
    for match in matches:
        job = jobs.get(match.job)
        fault = "is no job of the batch" if job is None else _whole(job, match, resources)
        if match.job in seen:
            fault = "is matched twice"
        seen.add(match.job)
        if job is not None and not fault and eligibility is not None:
            fault = _eligible(eligibility, positions, job, match)
        if fault or job is None:
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
    """Whether all ``amounts`` together fit beside what is used, exactly: as written in decimals, or as binary numbers.

    Only within a billionth of the total are exact numbers needed.
    """
    total = sum(amounts) + capacity.used
    if total <= capacity.total * (1.0 - _DOUBT):
        return True
    if total > capacity.total * (1.0 + _DOUBT):
        return False
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
    for relation in job.relations:
        for one in match.resources[relation.between[0]]:
            for other in match.resources[relation.between[1]]:
                if not _related(relation, resources[one], resources[other]):
                    return f"{one} and {other} are not related"
    return ""


def _related(relation: Relation, first: Resource, second: Resource) -> bool:
    if relation.same is None:
        return (first.name, second.name) in (relation.pairs or ())
    value = first.attributes.get(relation.same)
    return value is not None and value == second.attributes.get(relation.same)


def _positions(eligibility: Eligibility) -> dict[str, int]:
    """For each resource its position among those of its type."""
    resources = eligibility.problem.resources
    return {
        resources[member].name: position
        for of in eligibility.types.values()
        for position, member in enumerate(of.members.tolist())
    }


def _eligible(eligibility: Eligibility, positions: Mapping[str, int], job: MatchJob, match: Match) -> str:
    for dependency in job.dependencies:
        allowed, _ = eligibility.verdicts(dependency.type, job.job_class)
        satisfying = eligibility.satisfying(dependency, job)
        for name in match.resources[dependency.name]:
            if not (allowed[positions[name]] and satisfying[positions[name]]):
                return f"{dependency.name}: {name} is not eligible"
    return ""
