"""Reads a batch decoded from JSON, with the checks across its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jobsight_scheduler.matching.problem import MatchJob, Objective, Objectives, Problem, Resource, named
from jobsight_scheduler.matching.records import InvalidProblemError, decoded, once

DEPENDENCIES_AT_MOST, PAIRS_AT_MOST = 50_000, 10_000_000
"""Limits of a batch; pairs of a dependency and a resource of its type bound memory."""


def read_problem(value: object) -> Problem:
    """Read a batch with its resources.

    Raises:
        InvalidProblemError: a value is missing, wrong or too large; the message has the place and the value.
    """
    problem = decoded(value, Problem)
    once("resources", [resource.name for resource in problem.resources])
    once("jobs", [job.name for job in problem.jobs])
    check_size(problem.resources, problem.jobs)
    return problem


def read_objectives(value: object, place: str) -> tuple[Objective, ...]:
    """Read objectives, names of built-in ones or documents, in order of importance.

    Raises:
        InvalidProblemError: there is none, one is unknown, or one is there twice.
    """
    return named(decoded(value, Objectives, place), place)


def check_size(resources: Sequence[Resource], jobs: Sequence[MatchJob]) -> None:
    """Check the size of a batch.

    Raises:
        InvalidProblemError: there are too many dependencies, or too many pairs of a dependency and a resource.
    """
    instances = Counter(resource.type for resource in resources)
    dependencies = sum(len(job.dependencies) for job in jobs)
    pairs = sum(instances[dependency.type] for job in jobs for dependency in job.dependencies)
    for what, found, at_most in (
        ("dependencies", dependencies, DEPENDENCIES_AT_MOST),
        ("pairs of a dependency and a resource of its type", pairs, PAIRS_AT_MOST),
    ):
        if found > at_most:
            raise InvalidProblemError(f"jobs: {found:,} {what}, where {at_most:,} are allowed; send fewer jobs")
