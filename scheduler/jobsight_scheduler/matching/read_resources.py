"""Reads resources from decoded JSON."""

from __future__ import annotations

from collections.abc import Mapping

from .fields import (
    Ignored,
    each,
    expression,
    listed,
    mapping,
    name,
    number,
    optional,
    required,
    shown,
    whole,
)
from .policies import PolicyRule
from .predicates import Constant, Name, Node, Operation
from .problem import AttributeValue, Capacity, Hold, InvalidProblemError, Resource, Scalar

ATTRIBUTES_AT_MOST = 200
CAPACITIES_AT_MOST = 32
ENTRIES_AT_MOST = 1_000
LARGEST_COUNT = 10**9

_RESOURCE = frozenset(
    "name type attributes capacities cost held holds policies matches_running unavailable".split()  # noqa: SIM905
)
_RULE = frozenset({"classes", "hours", "when", "effect", "preference"})


def read_resource(value: object, place: str, ignored: Ignored) -> Resource:
    """One resource.

    Raises:
        InvalidProblemError: a value is missing or wrong.
    """
    entry = mapping(value, place)
    ignored.note(entry, _RESOURCE, "resources")
    capacities = read_capacities(entry.get("capacities", {}), f"{place}.capacities")
    holds = tuple(_hold(hold, where) for hold, where in each(entry.get("holds", ()), f"{place}.holds", ENTRIES_AT_MOST))
    held = entry.get("held")
    if held is not None and not isinstance(held, bool):
        raise InvalidProblemError(f"{place}.held: {shown(held)} is neither true nor false")
    unavailable = entry.get("unavailable")
    return Resource(
        name(required(entry, "name", place), f"{place}.name"),
        name(required(entry, "type", place), f"{place}.type"),
        read_attributes(entry.get("attributes", {}), f"{place}.attributes"),
        capacities,
        number(entry.get("cost", 1.0), f"{place}.cost", 0.0, 1e15),
        bool(holds) or any(capacity.used > 0.0 for capacity in capacities.values()) if held is None else held,
        holds,
        tuple(
            read_rule(rule, where, ignored)
            for rule, where in each(entry.get("policies", ()), f"{place}.policies", ENTRIES_AT_MOST)
        ),
        whole(entry.get("matches_running", len(holds)), f"{place}.matches_running", 0, LARGEST_COUNT),
        optional(unavailable, f"{place}.unavailable", name),
    )


def read_attributes(value: object, place: str) -> dict[str, AttributeValue]:
    """Attributes: numbers, strings, booleans and lists of these.

    Raises:
        InvalidProblemError: a value is something else.
    """
    entries = mapping(value, place)
    if len(entries) > ATTRIBUTES_AT_MOST:
        raise InvalidProblemError(f"{place}: {len(entries):,} attributes, where {ATTRIBUTES_AT_MOST} are allowed")
    return {
        key: tuple(scalar(item, where) for item, where in each(entry, f"{place}.{key}", ENTRIES_AT_MOST))
        if isinstance(entry, list | tuple)
        else scalar(entry, f"{place}.{key}")
        for key, entry in entries.items()
        if entry is not None  # as if it were not there: predicates that read it are not satisfied
    }


def scalar(value: object, place: str) -> Scalar:
    """A number, a string or a boolean.

    Raises:
        InvalidProblemError: it is something else, or not finite.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if not value else name(value, place)
    if isinstance(value, int | float):
        return number(value, place)
    raise InvalidProblemError(f"{place}: {shown(value)} is neither a number, a string, a boolean nor a list of these")


def read_capacities(value: object, place: str) -> dict[str, Capacity]:
    """Capacities, each ``{"total": 8, "used": 2}`` or, where nothing is used, the total alone.

    Raises:
        InvalidProblemError: an amount is negative or no number.
    """
    entries = mapping(value, place)
    if len(entries) > CAPACITIES_AT_MOST:
        raise InvalidProblemError(f"{place}: {len(entries):,} capacities, where {CAPACITIES_AT_MOST} are allowed")
    return {key: _capacity(entry, f"{place}.{key}") for key, entry in entries.items()}


def _capacity(value: object, place: str) -> Capacity:
    if not isinstance(value, Mapping):
        return Capacity(number(value, place, 0.0))
    entry = mapping(value, place)
    if unknown := entry.keys() - {"total", "used"}:
        raise InvalidProblemError(f"{place}: unknown field {shown(min(unknown))}; give 'total' and 'used'")
    total = number(required(entry, "total", place), f"{place}.total", 0.0)
    return Capacity(total, number(entry.get("used", 0.0), f"{place}.used", 0.0))


def read_amounts(value: object, place: str) -> dict[str, float]:
    """Amounts by capacity.

    Raises:
        InvalidProblemError: an amount is negative or no number.
    """
    entries = mapping(value, place)
    if len(entries) > CAPACITIES_AT_MOST:
        raise InvalidProblemError(f"{place}: {len(entries):,} amounts, where {CAPACITIES_AT_MOST} are allowed")
    return {key: number(amount, f"{place}.{key}", 0.0) for key, amount in entries.items()}


def _hold(value: object, place: str) -> Hold:
    entry = mapping(value, place)
    return Hold(
        name(required(entry, "job", place), f"{place}.job"),
        optional(entry.get("user"), f"{place}.user", name),
        number(required(entry, "until_s", place), f"{place}.until_s"),
        read_amounts(entry.get("amounts", {}), f"{place}.amounts"),
    )


def read_rule(value: object, place: str, ignored: Ignored) -> PolicyRule:
    """A policy rule: ``{"classes": ["batch"], "hours": [18, 8], "when": "matches_running <= 3", "effect": "allow"}``.

    Raises:
        InvalidProblemError: a value is wrong.
    """
    entry = mapping(value, place)
    ignored.note(entry, _RULE, "policy rules")
    effect = required(entry, "effect", place)
    if effect not in ("allow", "deny", "prefer"):
        raise InvalidProblemError(f"{place}.effect: {shown(effect)} is none of allow, deny, prefer")
    if effect == "prefer":
        required(entry, "preference", place)
    hours = entry.get("hours")
    span: tuple[float, float] | None = None
    if hours is not None:
        bounds = listed(hours, f"{place}.hours", 2)
        if len(bounds) != 2:
            raise InvalidProblemError(f"{place}.hours: {len(bounds)} entries; give from and to, such as [8, 18]")
        span = (number(bounds[0], f"{place}.hours[0]", 0.0, 24.0), number(bounds[1], f"{place}.hours[1]", 0.0, 24.0))
    conditions = _conditions(entry.get("when"), f"{place}.when")
    running = conditions.get("matches_running")
    return PolicyRule(
        effect,
        number(entry.get("preference", 1.0), f"{place}.preference", 0.0, 1.0),
        frozenset(name(item, where) for item, where in each(entry.get("classes", ()), f"{place}.classes", 1_000)),
        span,
        None if running is None else int(running),
        conditions.get("used_share"),
    )


def _conditions(value: object, place: str) -> dict[str, float]:
    """The bounds of ``matches_running <= 3 and used_share <= 0.8``."""
    if value is None:
        return {}
    return dict(_bound(part, place) for part in _conjunction(expression(value, place)))


def _conjunction(node: Node) -> tuple[Node, ...]:
    return node.operands if isinstance(node, Operation) and node.operator == "and" else (node,)


def _bound(node: Node, place: str) -> tuple[str, float]:
    match node:
        case Operation("<=", (Name("matches_running" | "used_share" as present), Constant(float(bound), False))):
            return present, bound
    raise InvalidProblemError(f"{place}: a condition is 'matches_running <= N', 'used_share <= X' or both with 'and'")
