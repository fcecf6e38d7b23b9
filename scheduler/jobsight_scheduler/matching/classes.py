"""Jobs that are truly identical, as one class: what one gets, any other of it could get."""

from __future__ import annotations

from collections.abc import Hashable

from .predicates import Node, names_in
from .problem import Dependency, MatchJob, Problem


def job_classes(problem: Problem, weights: tuple[float, ...]) -> list[list[int]]:
    """Positions of the jobs, those that differ in name only together; each class in the order of the batch.

    Jobs with relations stay alone: sets of instances of a whole class cannot always be divided among its jobs so that
    the instances of each are related.
    """
    nodes = [node for objective in problem.objectives for node in objective.coefficients.values()]
    reads = frozenset[str]().union(*(_job_fields(node) for node in nodes))
    found: dict[Hashable, list[int]] = {}
    for index, (job, weight) in enumerate(zip(problem.jobs, weights, strict=True)):
        found.setdefault(index if job.relations else _key(job, weight, reads), []).append(index)
    return list(found.values())


def _key(job: MatchJob, weight: float, reads: frozenset[str]) -> Hashable:
    dependencies = tuple(_dependency(dependency) for dependency in job.dependencies)
    fields = reads.union(
        *(_job_fields(dependency.where) for dependency in job.dependencies if dependency.where is not None)
    )
    return (
        job.job_class,
        job.priority,
        weight,
        dependencies,
        job.name if "job.name" in fields else None,
        job.user if "job.user" in fields else None,
        job.duration_s if "job.duration_s" in fields else None,
    )


def _dependency(dependency: Dependency) -> Hashable:
    return (
        dependency.type,
        dependency.where,
        tuple(sorted(dependency.amounts.items())),
        dependency.count,
        dependency.prefer,
    )


def _job_fields(node: Node) -> frozenset[str]:
    return frozenset(name for name in names_in(node) if name.startswith("job."))
