"""Jobs that are truly identical, as one class: what one gets, any other of it could get."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from .predicates import Node, names_in
from .problem import MatchJob, Problem


def job_classes(problem: Problem, is_counted: bool = True) -> list[list[int]]:
    """Positions of the jobs, those that differ in name only together; each class in the order of the batch.

    Fields that no expression of theirs reads, and no objective, may differ; so may what they count, unless
    ``is_counted``. Jobs with relations stay alone: sets of instances of a whole class cannot always be divided among
    its jobs so that the instances of each are related.
    """
    read = _job_fields(node for objective in problem.objectives for node in objective.coefficients.values())
    found: dict[Hashable, list[int]] = {}
    for index, job in enumerate(problem.jobs):
        key = index if job.relations else (_key(job, read), job.weight if is_counted else 0.0)
        found.setdefault(key, []).append(index)
    return list(found.values())


def _key(job: MatchJob, read: frozenset[str]) -> Hashable:
    expressions = [node for of in job.dependencies for node in (of.predicate, of.preferred and of.preferred[0]) if node]
    values = {
        "job.name": job.name,
        "job.user": job.user,
        "job.priority": job.priority,
        "job.duration_s": job.duration_s,
    }
    fields = read | _job_fields(expressions)
    # Dependencies with their names, which reasons have.
    dependencies = msgspec.json.encode(job.dependencies, order="sorted")
    return job.job_class, dependencies, *(value for name, value in values.items() if name in fields)


def _job_fields(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(name for node in nodes for name in names_in(node) if name.startswith("job."))
