"""Makes a problem of a batch that was decoded from JSON: parses its expressions, and checks what refers to what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .documents import (
    BatchDocument,
    DependencyDocument,
    JobDocument,
    OrderDocument,
    RelationDocument,
    ResourceDocument,
    decoded,
    shown,
)
from .expressions import expression, once
from .policies import Effect, PolicyRule
from .predicates import Constant, Name, Node, Operation
from .problem import (
    AttributeValue,
    Capacity,
    Dependency,
    InvalidProblemError,
    MatchJob,
    Preference,
    Problem,
    Relation,
    Resource,
    ValueOrder,
)
from .read_objectives import read_objectives, warnings_of
from .value_order import ranks

RELATED_AT_MOST = 200
_DIRECTED = re.compile(r"\s*(lowest|highest)\s+(.*\S.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """How large a batch may be. ``pairs`` is dependencies times resources of their types, which bounds memory."""

    dependencies: int = 50_000
    pairs: int = 100_000_000


LIMITS = BatchLimits()


def read_problem(value: object, limits: BatchLimits = LIMITS) -> Problem:
    """A batch with its resources.

    Raises:
        InvalidProblemError: a value is missing, wrong or too large; the message has the place and the value.
    """
    batch = decoded(value, BatchDocument)
    resources = tuple(resource_of(entry, f"resources[{index}]") for index, entry in enumerate(batch.resources))
    once([resource.name for resource in resources], "resources")
    jobs = tuple(job_of(entry, f"jobs[{index}]") for index, entry in enumerate(batch.jobs))
    once([job.name for job in jobs], "jobs")
    objectives = read_objectives(batch.objectives, "objectives")
    if batch.types is not None:
        check_types(resources, jobs, frozenset(batch.types))
    check_size(resources, jobs, limits)
    return Problem(resources, jobs, objectives, batch.hour, batch.now_s, warnings_of(objectives))


def resource_of(entry: ResourceDocument, place: str) -> Resource:
    """Raises:
    InvalidProblemError: a condition of a policy is none.
    """
    capacities = {
        kind: capacity if isinstance(capacity, Capacity) else Capacity(capacity)
        for kind, capacity in entry.capacities.items()
    }
    in_use = bool(entry.holds) or any(capacity.used > 0.0 for capacity in capacities.values())
    return Resource(
        entry.name,
        entry.type,
        {name: _attribute(value) for name, value in entry.attributes.items() if value is not None},
        capacities,
        entry.cost,
        in_use if entry.held is None else entry.held,
        entry.holds,
        tuple(
            rule_of(rule.effect, rule.preference, rule.classes, rule.hours, rule.when, f"{place}.policies[{index}]")
            for index, rule in enumerate(entry.policies)
        ),
        len(entry.holds) if entry.matches_running is None else entry.matches_running,
        entry.unavailable,
    )


def rule_of(
    effect: Effect,
    preference: float | None,
    classes: Sequence[str],
    hours: tuple[float, float] | None,
    when: str | None,
    place: str,
) -> PolicyRule:
    """Raises:
    InvalidProblemError: the preference is not there or not needed, or ``when`` is no condition.
    """
    if (effect == "prefer") != (preference is not None):
        raise InvalidProblemError(f"{place}: effect {effect!r}; give a preference with 'prefer', and only there")
    conditions = _conditions(when, f"{place}.when")
    running = conditions.get("matches_running")
    return PolicyRule(
        effect,
        1.0 if preference is None else preference,
        frozenset(classes),
        hours,
        None if running is None else int(running),
        conditions.get("used_share"),
    )


def job_of(entry: JobDocument, place: str) -> MatchJob:
    """Raises:
    InvalidProblemError: an expression does not parse, or a name is there twice or not at all.
    """
    dependencies = tuple(
        _dependency(dependency, f"{place}.dependencies[{index}]") for index, dependency in enumerate(entry.dependencies)
    )
    names = [dependency.name for dependency in dependencies]
    once(names, f"{place}.dependencies")
    relations = tuple(
        _relation(relation, names, f"{place}.relations[{index}]")
        for index, relation in enumerate(entry.relations or ())
    )
    instances = sum(dependency.count for dependency in dependencies)
    if relations and instances > RELATED_AT_MOST:
        raise InvalidProblemError(
            f"{place}.relations: {instances:,} instances, where {RELATED_AT_MOST} are allowed in a job with relations"
        )
    return MatchJob(entry.name, dependencies, entry.user, entry.job_class, entry.priority, entry.duration_s, relations)


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
    instances = Counter(resource.type for resource in resources)
    dependencies = sum(len(job.dependencies) for job in jobs)
    pairs = sum(instances[dependency.type] for job in jobs for dependency in job.dependencies)
    for what, found, at_most in (
        ("dependencies", dependencies, limits.dependencies),
        ("pairs of a dependency and a resource of its type", pairs, limits.pairs),
    ):
        if found > at_most:
            raise InvalidProblemError(f"jobs: {found:,} {what}, where {at_most:,} are allowed; send fewer jobs")


def _attribute(value: object) -> AttributeValue:
    return tuple(value) if isinstance(value, list) else value  # type: ignore[return-value]


def _conditions(when: str | None, place: str) -> dict[str, float]:
    """The bounds of ``matches_running <= 3 and used_share <= 0.8``."""
    if when is None:
        return {}
    node = expression(when, place)
    parts = node.operands if isinstance(node, Operation) and node.operator == "and" else (node,)
    return dict(_bound(part, place) for part in parts)


def _bound(node: Node, place: str) -> tuple[str, float]:
    match node:
        case Operation("<=", (Name("matches_running" | "used_share" as present), Constant(float(bound), False))):
            return present, bound
    raise InvalidProblemError(f"{place}: a condition is 'matches_running <= N', 'used_share <= X' or both with 'and'")


def _dependency(entry: DependencyDocument, place: str) -> Dependency:
    return Dependency(
        entry.name,
        entry.type,
        expression(entry.where, f"{place}.where") if entry.where else None,
        entry.amounts or {},
        entry.count,
        None if entry.prefer is None else _preference(entry.prefer, f"{place}.prefer"),
        (entry.where or "").strip(),
    )


def _preference(prefer: str | OrderDocument, place: str) -> Preference:
    if isinstance(prefer, str):
        directed = _DIRECTED.fullmatch(prefer)
        text = prefer if directed is None else directed[2]
        return Preference(expression(text, place), directed is not None and directed[1] == "lowest")
    order = ValueOrder(prefer.attribute, tuple(prefer.better))
    try:
        ranks(order)
    except ValueError as error:
        raise InvalidProblemError(f"{place}.better: {error}") from error
    return Preference(order)


def _relation(entry: RelationDocument, names: Sequence[str], place: str) -> Relation:
    first, second = entry.between
    for index, end in enumerate(entry.between):
        if end not in names:
            raise InvalidProblemError(f"{place}.between[{index}]: {shown(end)} is no dependency of the job")
    if first == second:
        raise InvalidProblemError(f"{place}.between: give the names of two different dependencies of the job")
    if (entry.same is None) == (entry.pairs is None):
        raise InvalidProblemError(f"{place}: give either 'same' (an attribute) or 'pairs' (of names of resources)")
    return Relation(first, second, entry.same, None if entry.pairs is None else frozenset(entry.pairs))
