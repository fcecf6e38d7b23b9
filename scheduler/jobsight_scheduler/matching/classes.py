"""Jobs that are truly identical, as one class: what one gets, any other of it could get."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from .predicates import Node, names_in
from .problem import Dependency, MatchJob, Problem, ValueOrder


def job_classes(problem: Problem, weights: Sequence[float] | None = None) -> list[list[int]]:
    """Positions of the jobs, those that differ in name only together; each class in the order of the batch.

    ``weights`` are what the jobs count, by default their own. Fields that no expression of theirs reads, and no
    objective, may differ. Jobs with relations stay alone: sets of instances of a whole class cannot always be divided
    among its jobs so that the instances of each are related.
    """
    counted = [job.counted for job in problem.jobs] if weights is None else weights
    reads = _job_fields([node for objective in problem.objectives for node in objective.coefficients.values()])
    found: dict[Hashable, list[int]] = {}
    for index, (job, weight) in enumerate(zip(problem.jobs, counted, strict=True)):
        found.setdefault(index if job.relations else _key(job, weight, reads), []).append(index)
    return list(found.values())


def _key(job: MatchJob, weight: float, reads: frozenset[str]) -> Hashable:
    fields = reads | _job_fields([node for dependency in job.dependencies for node in _nodes(dependency)])
    return (
        job.job_class,
        weight,
        tuple(map(_dependency, job.dependencies)),
        job.name if "job.name" in fields else None,
        job.user if "job.user" in fields else None,
        job.priority if "job.priority" in fields else None,
        job.duration_s if "job.duration_s" in fields else None,
    )


def _nodes(dependency: Dependency) -> list[Node]:
    by = None if dependency.prefer is None else dependency.prefer.by
    return [node for node in (dependency.where, by) if node is not None and not isinstance(node, ValueOrder)]


def _dependency(dependency: Dependency) -> Hashable:
    return (
        dependency.name,  # reasons have it
        dependency.type,
        dependency.where,
        tuple(sorted(dependency.amounts.items())),
        dependency.count,
        dependency.prefer,
    )


def _job_fields(nodes: Sequence[Node]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in names_in(node) if name.startswith("job."))
