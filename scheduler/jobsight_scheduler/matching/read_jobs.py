"""Reads jobs, their dependencies and the relations between them from decoded JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from .fields import (
    Ignored,
    each,
    expression,
    listed,
    mapping,
    name,
    number,
    once,
    optional,
    required,
    shown,
    whole,
)
from .problem import Dependency, InvalidProblemError, MatchJob, Preference, Relation, ValueOrder
from .read_resources import CAPACITIES_AT_MOST, ENTRIES_AT_MOST, scalar
from .value_order import ranks

DEPENDENCIES_AT_MOST = 64
COUNT_AT_MOST = 100_000
PAIRS_AT_MOST = 100_000
RELATED_AT_MOST = 200
LONGEST_DURATION_S = 1e10

_JOB = frozenset(
    "name user class priority duration_s dependencies relations executable inputs".split()  # noqa: SIM905
)
_DEPENDENCY = frozenset({"name", "type", "where", "amounts", "count", "prefer"})
_RELATION = frozenset({"between", "same", "pairs"})
_DIRECTED = re.compile(r"\s*(lowest|highest)\s+(.*)", re.DOTALL)

Predicted = Callable[[str | None, str, str], float]
"""The amount for ``"predicted"``: of (user, class of the job, name of the capacity)."""


def read_job(value: object, place: str, ignored: Ignored, predicted: Predicted | None = None) -> MatchJob:
    """One job. ``executable`` and ``inputs`` are allowed and not looked at.

    Raises:
        InvalidProblemError: a value is missing or wrong.
    """
    entry = mapping(value, place)
    ignored.note(entry, _JOB, "jobs")
    user = optional(entry.get("user"), f"{place}.user", name)
    job_class = entry.get("class", "")
    job_class = job_class if job_class == "" else name(job_class, f"{place}.class")
    dependencies = tuple(
        _dependency(dependency, where, ignored, predicted, user, job_class)
        for dependency, where in each(
            required(entry, "dependencies", place), f"{place}.dependencies", DEPENDENCIES_AT_MOST
        )
    )
    once([dependency.name for dependency in dependencies], f"{place}.dependencies")
    names = frozenset(dependency.name for dependency in dependencies)
    relations = tuple(
        _relation(relation, where, names, ignored)
        for relation, where in each(entry.get("relations") or (), f"{place}.relations", ENTRIES_AT_MOST)
    )
    instances = sum(dependency.count for dependency in dependencies)
    if relations and instances > RELATED_AT_MOST:
        raise InvalidProblemError(
            f"{place}.relations: {instances:,} instances, where {RELATED_AT_MOST} are allowed in a job with relations"
        )
    return MatchJob(
        name(required(entry, "name", place), f"{place}.name"),
        dependencies,
        user,
        job_class,
        number(entry.get("priority", 1.0), f"{place}.priority", 0.0, 1e12),
        optional(
            entry.get("duration_s"), f"{place}.duration_s", lambda found, at: number(found, at, 0.0, LONGEST_DURATION_S)
        ),
        relations,
    )


def _dependency(
    value: object, place: str, ignored: Ignored, predicted: Predicted | None, user: str | None, job_class: str
) -> Dependency:
    entry = mapping(value, place)
    ignored.note(entry, _DEPENDENCY, "dependencies")
    where = entry.get("where")
    text = where.strip() if isinstance(where, str) else ""
    amounts = mapping(entry.get("amounts") or {}, f"{place}.amounts")
    if len(amounts) > CAPACITIES_AT_MOST:
        raise InvalidProblemError(f"{place}.amounts: {len(amounts):,} amounts; {CAPACITIES_AT_MOST} are allowed")
    return Dependency(
        name(required(entry, "name", place), f"{place}.name"),
        name(required(entry, "type", place), f"{place}.type"),
        None if where is None or where == "" else expression(where, f"{place}.where"),
        {
            key: _amount(amount, f"{place}.amounts.{key}", predicted, user, job_class, key)
            for key, amount in amounts.items()
        },
        whole(entry.get("count", 1), f"{place}.count", 1, COUNT_AT_MOST),
        optional(entry.get("prefer"), f"{place}.prefer", read_preference),
        text,
    )


def _amount(
    value: object, place: str, predicted: Predicted | None, user: str | None, job_class: str, key: str
) -> float:
    if value != "predicted":
        return number(value, place, 0.0)
    if predicted is None:
        raise InvalidProblemError(f"{place}: 'predicted' needs a Jobsight server; give a number")
    return number(predicted(user, job_class, key), place, 0.0)


def read_preference(value: object, place: str) -> Preference:
    """``"speed"``, ``"lowest price"``, ``"highest speed / price"``, or an order of an attribute's values,
    ``{"attribute": "os", "better": [["linux", "bsd"], ["bsd", "windows"]]}``.

    Raises:
        InvalidProblemError: it is neither, or the order has a cycle.
    """
    if isinstance(value, str):
        directed = _DIRECTED.fullmatch(value)
        if directed is None or not directed[2].strip():
            return Preference(expression(value, place))
        return Preference(expression(directed[2], place), directed[1] == "lowest")
    entry = mapping(value, place)
    if unknown := entry.keys() - {"attribute", "better"}:
        raise InvalidProblemError(f"{place}: unknown field {shown(min(unknown))}; give 'attribute' and 'better'")
    pairs = []
    for pair, where in each(required(entry, "better", place), f"{place}.better", ENTRIES_AT_MOST):
        values = listed(pair, where, 2)
        if len(values) != 2:
            raise InvalidProblemError(f"{where}: {len(values)} values; give the better and the worse one")
        pairs.append((scalar(values[0], where), scalar(values[1], where)))
    order = ValueOrder(name(required(entry, "attribute", place), f"{place}.attribute"), tuple(pairs))
    try:
        ranks(order)
    except ValueError as error:
        raise InvalidProblemError(f"{place}.better: {error}") from error
    return Preference(order)


def _relation(value: object, place: str, names: frozenset[str], ignored: Ignored) -> Relation:
    """``{"between": ["compute", "files"], "same": "location"}``, or ``"pairs"`` instead of ``"same"``."""
    entry = mapping(value, place)
    ignored.note(entry, _RELATION, "relations")
    ends = listed(required(entry, "between", place), f"{place}.between", 2)
    if len(ends) != 2 or ends[0] == ends[1]:
        raise InvalidProblemError(f"{place}.between: give the names of two different dependencies of the job")
    first, second = (_end(end, f"{place}.between[{index}]", names) for index, end in enumerate(ends))
    if ("same" in entry) == ("pairs" in entry):
        raise InvalidProblemError(f"{place}: give either 'same' (an attribute) or 'pairs' (of names of resources)")
    if "same" in entry:
        return Relation(first, second, same=name(entry["same"], f"{place}.same"))
    return Relation(first, second, pairs=_pairs(entry, place))


def _end(value: object, place: str, names: frozenset[str]) -> str:
    if not isinstance(value, str) or value not in names:
        raise InvalidProblemError(f"{place}: {shown(value)} is no dependency of the job")
    return value


def _pairs(entry: Mapping[str, object], place: str) -> frozenset[tuple[str, str]]:
    found = set()
    for pair, where in each(entry["pairs"], f"{place}.pairs", PAIRS_AT_MOST):
        both = listed(pair, where, 2)
        if len(both) != 2:
            raise InvalidProblemError(f"{where}: {len(both)} names; give two")
        found.add((name(both[0], where), name(both[1], where)))
    return frozenset(found)
