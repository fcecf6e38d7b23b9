"""Reads a whole batch from decoded JSON: ``{"resources": [...], "jobs": [...], "objectives": ["throughput"]}``.

The bytes are decoded by the caller. All of it is bounded, and the first fault ends it: nothing is half read.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Ignored, each, mapping, name, number, once, required, shown
from .problem import InvalidProblemError, MatchJob, Problem, Resource
from .read_jobs import Predicted, read_job
from .read_objectives import read_objectives, warnings_of
from .read_resources import read_resource

_PROBLEM = frozenset({"resources", "jobs", "objectives", "types", "hour", "now_s"})


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may be. ``pairs`` is dependencies times resources of their types, which bounds memory."""

    jobs: int = 10_000
    resources: int = 20_000
    dependencies: int = 50_000
    pairs: int = 100_000_000


LIMITS = BatchLimits()


def read_problem(value: object, limits: BatchLimits = LIMITS) -> Problem:
    """A batch with its resources.

    ``types``, where given, are the only ones that resources and dependencies may have. ``hour`` and ``now_s`` are the
    present for policies and holds.

    Raises:
        InvalidProblemError: a value is missing, wrong or too large; the message has the place and the value.
    """
    entry = mapping(value, "the batch")
    ignored = Ignored()
    ignored.note(entry, _PROBLEM, "batches")
    resources = read_resources(required(entry, "resources", "the batch"), "resources", ignored, limits)
    jobs = read_jobs(required(entry, "jobs", "the batch"), "jobs", ignored, limits)
    objectives = read_objectives(entry.get("objectives", ["throughput"]), "objectives")
    if "types" in entry:
        types = frozenset(name(item, where) for item, where in each(entry["types"], "types", 1_000))
        check_types(resources, jobs, types)
    check_size(resources, jobs, limits)
    return Problem(
        resources,
        jobs,
        objectives,
        number(entry["hour"], "hour", 0.0, 24.0) if entry.get("hour") is not None else None,
        number(entry.get("now_s", 0.0), "now_s"),
        ignored.warnings() + warnings_of(objectives),
    )


def read_resources(value: object, place: str, ignored: Ignored, limits: BatchLimits = LIMITS) -> tuple[Resource, ...]:
    """Resources, whose names differ.

    Raises:
        InvalidProblemError: a value is missing or wrong.
    """
    found = tuple(read_resource(entry, where, ignored) for entry, where in each(value, place, limits.resources))
    once([resource.name for resource in found], place)
    return found


def read_jobs(
    value: object, place: str, ignored: Ignored, limits: BatchLimits = LIMITS, predicted: Predicted | None = None
) -> tuple[MatchJob, ...]:
    """Jobs, whose names differ.

    Raises:
        InvalidProblemError: a value is missing or wrong.
    """
    found = tuple(read_job(entry, where, ignored, predicted) for entry, where in each(value, place, limits.jobs))
    once([job.name for job in found], place)
    return found


def check_types(resources: tuple[Resource, ...], jobs: tuple[MatchJob, ...], types: frozenset[str]) -> None:
    """Requires every type to be one of ``types``.

    Raises:
        InvalidProblemError: one is not; the message names those known.
    """
    places = [(f"resources[{index}].type", resource.type) for index, resource in enumerate(resources)]
    places += [
        (f"jobs[{index}].dependencies[{position}].type", dependency.type)
        for index, job in enumerate(jobs)
        for position, dependency in enumerate(job.dependencies)
    ]
    for place, of in places:
        if of not in types:
            raise InvalidProblemError(f"{place}: unknown type {shown(of)}; known: {', '.join(sorted(types)[:20])}")


def check_size(resources: tuple[Resource, ...], jobs: tuple[MatchJob, ...], limits: BatchLimits = LIMITS) -> None:
    """Bounds what matching takes.

    Raises:
        InvalidProblemError: there are too many dependencies, or too many pairs of a dependency and a resource.
    """
    instances: dict[str, int] = {}
    for resource in resources:
        instances[resource.type] = instances.get(resource.type, 0) + 1
    dependencies = sum(len(job.dependencies) for job in jobs)
    pairs = sum(instances.get(dependency.type, 0) for job in jobs for dependency in job.dependencies)
    for what, found, at_most in (
        ("dependencies", dependencies, limits.dependencies),
        ("pairs of a dependency and a resource of its type", pairs, limits.pairs),
    ):
        if found > at_most:
            raise InvalidProblemError(f"jobs: {found:,} {what}, where {at_most:,} are allowed; send fewer jobs")
