"""Evaluates predicates and expressions over all resources of a type at once.

Logic has three values. A comparison that reads a field which a resource does not have, or compares a number with a
string by size, is unknown; so is its negation. A resource satisfies a predicate that is true for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .predicates import COMPARISONS, Constant, Listed, Name, Node, Operation, names_in
from .problem import MatchJob, Resource

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

JOB_FIELDS = ("job.name", "job.user", "job.class", "job.priority", "job.duration_s")
_ARITHMETIC = frozenset({"+", "-", "*", "/"})


@dataclass(frozen=True, slots=True)
class _Column:
    """Values of a field, one a resource or one for all: NaN and None where it is of another kind or missing."""

    numbers: Floats
    texts: NDArray[np.object_] | None = None
    lists: tuple[tuple[Any, ...] | None, ...] | None = None

    @property
    def present(self) -> Flags:
        known: Flags = ~np.isnan(self.numbers)
        return known if self.texts is None else known | (self.texts != None)  # noqa: E711  # elementwise


@dataclass(frozen=True, slots=True)
class _Truth:
    true: Flags
    false: Flags


class ResourceColumns:
    """The fields of resources of one type: attributes, capacities (``slots`` is what is free of it, ``slots.total``,

    ``slots.used`` and ``slots.free`` are there as well), ``name``, ``type`` and ``cost``. An attribute hides a capacity
    of its name.
    """

    def __init__(self, resources: Sequence[Resource]) -> None:
        self._resources = resources
        self._size = len(resources)
        self._columns: dict[str, _Column] = {}
        self._satisfied: dict[Node, Flags] = {}
        self._truths: dict[Node, _Truth] = {}

    def has(self, name: str) -> bool:
        """Whether any resource has the field ``name``."""
        column = self._column(name)
        return bool(column.present.any()) or column.lists is not None

    def satisfied(self, node: Node | None) -> Flags:
        """Which resources satisfy a predicate; all where there is none. Not to be written to."""
        if node is None:
            return np.ones(self._size, dtype=np.bool_)
        if (found := self._satisfied.get(node)) is None:
            found = np.broadcast_to(self._truth(node).true, self._size)
            self._satisfied[node] = found
        return found

    def numbers(self, node: Node) -> Floats:
        """The value of an expression for each resource; NaN where it has none, or none that is finite."""
        found = np.broadcast_to(self._value(node).numbers, self._size)
        return np.where(np.isfinite(found), found, np.nan)

    def values(self, name: str) -> list[Any]:
        """The value of an attribute or other field for each resource, None where it is missing."""
        return [_field(resource, name) for resource in self._resources]

    def _column(self, name: str) -> _Column:
        if (column := self._columns.get(name)) is None:
            column = self._columns[name] = _column(self.values(name))
        return column

    def _truth(self, node: Node) -> _Truth:
        if (found := self._truths.get(node)) is None:
            found = self._truths[node] = self._logic(node)
        return found

    def _logic(self, node: Node) -> _Truth:
        if isinstance(node, Operation):
            operator, operands = node
            if operator in ("and", "or"):
                parts = [self._truth(operand) for operand in operands]
                true, false = [part.true for part in parts], [part.false for part in parts]
                if operator == "and":
                    return _Truth(_all(true), _any(false))
                return _Truth(_any(true), _all(false))
            if operator == "not":
                inner = self._truth(operands[0])
                return _Truth(inner.false, inner.true)
            if operator == "in":
                return self._member(self._value(operands[0]), operands[1])
            if operator in COMPARISONS:
                return _compared(operator, self._value(operands[0]), self._value(operands[1]))
        numbers = self._value(node).numbers
        return _Truth((numbers != 0.0) & ~np.isnan(numbers), numbers == 0.0)

    def _member(self, left: _Column, of: Node) -> _Truth:
        if isinstance(of, Listed):
            parts = [_compared("==", left, self._value(item)) for item in of.items]
            if not parts:
                return _Truth(np.zeros(1, dtype=np.bool_), left.present)
            return _Truth(_any([part.true for part in parts]), _all([part.false for part in parts]))
        right = self._value(of)
        found = _compared("==", left, right)
        if right.lists is None:
            return found
        true, false = (np.array(np.broadcast_to(flags, self._size)) for flags in (found.true, found.false))
        numbers = np.broadcast_to(left.numbers, self._size)
        texts = None if left.texts is None else np.broadcast_to(left.texts, self._size)
        for index, entries in enumerate(right.lists):
            if entries is not None:
                value = numbers[index] if texts is None or texts[index] is None else texts[index]
                if value == value:  # neither missing nor NaN
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
            case Operation(operator, (left, right)) if operator in _ARITHMETIC:
                return _Column(_calculated(operator, self._value(left).numbers, self._value(right).numbers))
            case Listed():
                return _Column(np.full(1, np.nan))
        truth = self._truth(node)
        return _Column(np.where(truth.true, 1.0, np.where(truth.false, 0.0, np.nan)))


def bound_to(node: Node, job: MatchJob) -> Node:
    """``node`` with the fields of ``job`` in place of ``job.priority`` and the like."""
    if not any(name in JOB_FIELDS for name in names_in(node)):
        return node
    return _replaced(
        node,
        {
            "job.name": job.name,
            "job.user": job.user,
            "job.class": job.job_class,
            "job.priority": job.priority,
            "job.duration_s": job.duration_s,
        },
    )


def _replaced(node: Node, fields: dict[str, str | float | None]) -> Node:
    match node:
        case Name(name) if fields.get(name) is not None:
            value = fields[name]
            return Constant(value, True) if isinstance(value, str) else Constant(float(value or 0.0), False)
        case Listed(items):
            return Listed(tuple(_replaced(item, fields) for item in items))
        case Operation(operator, operands):
            return Operation(operator, tuple(_replaced(operand, fields) for operand in operands))
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


def _compared(operator: str, left: _Column, right: _Column) -> _Truth:
    if operator in ("==", "!="):
        equal = left.numbers == right.numbers
        if left.texts is not None and right.texts is not None:
            equal = equal | ((left.texts == right.texts) & (left.texts != None))  # noqa: E711  # elementwise
        unequal = left.present & right.present & ~equal
        return _Truth(equal, unequal) if operator == "==" else _Truth(unequal, equal)
    true = _ordered(operator, left.numbers, right.numbers)
    known = ~(np.isnan(left.numbers) | np.isnan(right.numbers))
    if left.texts is not None and right.texts is not None:
        pairs = np.broadcast(left.texts, right.texts)
        both = [one is not None and other is not None for one, other in pairs]
        pairs.reset()
        smaller = [one is not None and other is not None and _before(operator, one, other) for one, other in pairs]
        true, known = true | np.array(smaller), known | np.array(both)
    return _Truth(true, known & ~true)


def _ordered(operator: str, left: Floats, right: Floats) -> Flags:
    if operator in ("<", "<="):
        found: Flags = left < right if operator == "<" else left <= right
    else:
        found = left > right if operator == ">" else left >= right
    return found


def _before(operator: str, left: str, right: str) -> bool:
    if operator in ("<", "<="):
        return left < right if operator == "<" else left <= right
    return left > right if operator == ">" else left >= right


def _calculated(operator: str, left: Floats, right: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        match operator:
            case "+":
                found = left + right
            case "-":
                found = left - right
            case "*":
                found = left * right
            case _:
                found = left / right
    return np.where(np.isfinite(found), found, np.nan)


def _all(flags: list[Flags]) -> Flags:
    found = flags[0]
    for more in flags[1:]:
        found = found & more
    return found


def _any(flags: list[Flags]) -> Flags:
    found = flags[0]
    for more in flags[1:]:
        found = found | more
    return found
