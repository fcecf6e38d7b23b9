"""Reads the ordered list of objectives from decoded JSON."""

from __future__ import annotations

from collections.abc import Mapping

from .fields import each, expression, mapping, name, once, required, shown
from .predicates import Node
from .problem import MATCH_NOTHING, OBJECTIVES, InvalidProblemError, Objective, shipped

OBJECTIVES_AT_MOST = 10
VARIABLES = ("Z", "X", "S", "F")


def read_objectives(value: object, place: str) -> tuple[Objective, ...]:
    """Names of objectives that ship, or objects.

    ``{"name": "balance", "type": "compute"}`` or ``"resources": [names]`` balances these only. ``{"name": "cheap",
    "sense": "min", "X": "price * job.duration_s"}`` is an own one, linear in Z (a job is matched), X (a job's
    dependency is on a resource), S (a resource is used) and F (the largest share used).

    Raises:
        InvalidProblemError: there is none, or one is not known.
    """
    found = tuple(_objective(entry, where) for entry, where in each(value, place, OBJECTIVES_AT_MOST))
    if not found:
        raise InvalidProblemError(f"{place}: is empty; name at least one of {', '.join(OBJECTIVES)}")
    once([objective.name for objective in found], place)
    return found


def warnings_of(objectives: tuple[Objective, ...]) -> tuple[str, ...]:
    """What an administrator should know of these objectives."""
    if objectives[0].kind not in MATCH_NOTHING:
        return ()
    return (f"the objective {objectives[0].name!r} alone is best when nothing is matched; put 'throughput' before it",)


def _objective(value: object, place: str) -> Objective:
    if isinstance(value, str):
        return shipped(_known(value, place))
    entry = mapping(value, place)
    called = name(required(entry, "name", place), f"{place}.name")
    coefficients = {
        variable: expression(entry[variable], f"{place}.{variable}") for variable in VARIABLES if variable in entry
    }
    if coefficients:
        return _own(entry, called, coefficients, place)
    if unknown := entry.keys() - {"name", "resources", "type"}:
        raise InvalidProblemError(f"{place}: unknown field {shown(min(unknown))}; an own objective has Z, X, S or F")
    kind = _known(called, f"{place}.name")
    if kind != "balance" and ("resources" in entry or "type" in entry):
        raise InvalidProblemError(f"{place}: 'resources' and 'type' belong to balance, not to {kind}")
    chosen = (
        frozenset(name(item, where) for item, where in each(entry["resources"], f"{place}.resources", 100_000))
        if "resources" in entry
        else None
    )
    of_type = name(entry["type"], f"{place}.type") if "type" in entry else None
    return Objective(kind, kind, OBJECTIVES[kind], resources=chosen, type=of_type)


def _known(value: str, place: str) -> str:
    if value not in OBJECTIVES:
        raise InvalidProblemError(f"{place}: unknown objective {shown(value)}; known: {', '.join(OBJECTIVES)}")
    return value


def _own(entry: Mapping[str, object], called: str, coefficients: dict[str, Node], place: str) -> Objective:
    if called in OBJECTIVES:
        raise InvalidProblemError(f"{place}.name: {called!r} is one that ships; give your own another name")
    if unknown := entry.keys() - {"name", "sense", *VARIABLES}:
        raise InvalidProblemError(f"{place}: unknown field {shown(min(unknown))}")
    sense = entry.get("sense", "max")
    if sense not in ("max", "min"):
        raise InvalidProblemError(f"{place}.sense: {shown(sense)} is neither max nor min")
    return Objective("own", called, sense == "max", coefficients)
