"""Array types. Shapes are in letters: D dependencies, R resources of a type, K kinds of capacity."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobsight_predictor.arrays import Booleans, Floats
from jobsight_scheduler.matching.predicates import Constant, Listed, Name, Node, Operation, names_in
from jobsight_scheduler.matching.problem import MatchJob, Resource

_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Floats, Floats], Floats]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
}


@dataclass(frozen=True, slots=True)
class _Column:
    """Values of a field, one per resource or one for all; NaN and None where it is missing or of another kind."""

    numbers: Floats
    texts: NDArray[np.object_] | None = None
    lists: tuple[tuple[Any, ...] | None, ...] | None = None

    @property
    def present(self) -> Booleans:
        known: Booleans = ~np.isnan(self.numbers)
        return known if self.texts is None else known | (self.texts != None)  # noqa: E711  # elementwise


@dataclass(frozen=True, slots=True)
class _Truth:
    true: Booleans
    false: Booleans


class ResourceColumns:
    """The fields of resources of one type: attributes, capacities, ``name``, ``type`` and ``cost``.

    A capacity such as ``slots`` is its free part, like ``slots.free``, beside ``slots.total`` and ``slots.used``. An
    attribute hides a capacity of its name.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._columns: dict[str, _Column] = {}
        self._truths: dict[Node, _Truth] = {}

    def has(self, name: str) -> bool:
        """Return whether any resource has the field ``name``."""
        column = self._column(name)
        return bool(column.present.any()) or column.lists is not None

    def satisfied(self, node: Node) -> Booleans:
        """Return which resources satisfy a predicate; read-only."""
        found, size = self._truth(node).true, len(self._resources)
        return found if len(found) == size else np.broadcast_to(found, size)

    def numbers(self, node: Node) -> Floats:
        """Return the value of an expression for each resource; NaN where it has no finite one."""
        found = np.broadcast_to(self._value(node).numbers, len(self._resources))
        return np.where(np.isfinite(found), found, np.nan)

    def _column(self, name: str) -> _Column:
        if (column := self._columns.get(name)) is None:
            column = self._columns[name] = _column([_field(resource, name) for resource in self._resources])
        return column

    def _truth(self, node: Node) -> _Truth:
        if (found := self._truths.get(node)) is None:
            found = self._truths[node] = self._logic(node)
        return found

    def _logic(self, node: Node) -> _Truth:
        match node:
            case Operation("and", operands):
                return _all([self._truth(operand) for operand in operands])
            case Operation("or", operands):
                return _negated(_all([_negated(self._truth(operand)) for operand in operands]))
            case Operation("not", (operand,)):
                return _negated(self._truth(operand))
            case Operation("in", (left, of)):
                return self._member(self._value(left), of)
            case Operation("==" | "!=" as sign, (left, right)):
                equal = _equal(self._value(left), self._value(right))
                return equal if sign == "==" else _negated(equal)
            case Operation(sign, (left, right)) if sign in _ORDERS:
                return _ordered(_ORDERS[sign], self._value(left), self._value(right))
        numbers = self._value(node).numbers
        return _Truth((numbers != 0.0) & ~np.isnan(numbers), numbers == 0.0)

    def _member(self, left: _Column, of: Node) -> _Truth:
        if isinstance(of, Listed):
            if not of.items:
                return _Truth(np.zeros(1, dtype=np.bool_), left.present)
            return _negated(_all([_negated(_equal(left, self._value(item))) for item in of.items]))
        right = self._value(of)
        found = _equal(left, right)
        if right.lists is None:
            return found
        size = len(self._resources)
        true, false = (np.array(np.broadcast_to(flags, size)) for flags in (found.true, found.false))
        texts = np.broadcast_to(np.array(None) if left.texts is None else left.texts, size)
        for index, (number, text, entries) in enumerate(
            zip(np.broadcast_to(left.numbers, size), texts, right.lists, strict=True)
        ):
            value = number if text is None else text
            if entries is not None and value == value:  # neither missing nor NaN
                true[index] = value in entries
                false[index] = not true[index]
        return _Truth(true, false)

    def _value(self, node: Node) -> _Column:
        match node:
            case Name(name):
                return self._column(name)
            case Constant(value, True):
                return _Column(np.full(1, np.nan), np.array([value], dtype=object))
            case Constant(value, _):
                return _Column(np.array([value], dtype=np.float64))
            case Operation("negate", (operand,)):
                return _Column(-self._value(operand).numbers)
            case Operation(sign, (left, right)) if sign in _ARITHMETIC:
                with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                    found = _ARITHMETIC[sign](self._value(left).numbers, self._value(right).numbers)
                return _Column(np.where(np.isfinite(found), found, np.nan))
            case Listed():
                return _Column(np.full(1, np.nan))
        truth = self._truth(node)
        return _Column(np.where(truth.true, 1.0, np.where(truth.false, 0.0, np.nan)))


def bound_to(node: Node, job: MatchJob) -> Node:
    """Replace ``job.priority`` and the like in ``node`` by the fields of ``job``."""
    fields = {
        "job.name": job.name,
        "job.user": job.user,
        "job.class": job.job_class,
        "job.priority": job.priority,
        "job.duration_s": job.duration_s,
    }
    return _replaced(node, fields) if any(name in fields for name in names_in(node)) else node


def _replaced(node: Node, fields: dict[str, str | float | None]) -> Node:
    match node:
        case Name(name) if (value := fields.get(name)) is not None:
            return Constant(value, isinstance(value, str))
        case Listed(items):
            return Listed(tuple(_replaced(item, fields) for item in items))
        case Operation(sign, operands):
            return Operation(sign, tuple(_replaced(operand, fields) for operand in operands))
    return node


def _field(resource: Resource, name: str) -> Any:
    if name in resource.attributes:
        return resource.attributes[name]
    of, _, part = name.rpartition(".")
    if of in resource.capacities and part in ("total", "used", "free"):
        return getattr(resource.capacities[of], part)
    if name in resource.capacities:
        return resource.capacities[name].free
    return getattr(resource, name) if name in ("name", "type", "cost") else None


def _column(values: list[Any]) -> _Column:
    numbers = np.array(
        [float(value) if isinstance(value, int | float) else np.nan for value in values], dtype=np.float64
    )
    texts = np.array([value if isinstance(value, str) else None for value in values], dtype=object)
    lists = tuple(value if isinstance(value, tuple) else None for value in values)
    has_texts = any(value is not None for value in texts)
    return _Column(numbers, texts if has_texts else None, lists if any(value is not None for value in lists) else None)


def _equal(left: _Column, right: _Column) -> _Truth:
    equal = left.numbers == right.numbers
    if left.texts is not None and right.texts is not None:
        equal = equal | ((left.texts == right.texts) & (left.texts != None))  # noqa: E711  # elementwise
    return _Truth(equal, left.present & right.present & ~equal)


def _ordered(order: Callable[[Any, Any], Any], left: _Column, right: _Column) -> _Truth:
    true = order(left.numbers, right.numbers)
    known = ~(np.isnan(left.numbers) | np.isnan(right.numbers))
    if left.texts is not None and right.texts is not None:
        pairs = list(np.broadcast(left.texts, right.texts))
        both = np.array([one is not None and other is not None for one, other in pairs])
        known = known | both
        true = true | np.array([flag and order(*pair) for flag, pair in zip(both, pairs, strict=True)])
    return _Truth(true, known & ~true)


def _negated(truth: _Truth) -> _Truth:
    return _Truth(truth.false, truth.true)


def _all(parts: list[_Truth]) -> _Truth:
    true = reduce(np.logical_and, [part.true for part in parts])
    return _Truth(true, reduce(np.logical_or, [part.false for part in parts]))
