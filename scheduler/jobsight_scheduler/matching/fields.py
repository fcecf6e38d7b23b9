"""Checked access to the values of a decoded JSON document; every error names the place and the value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from .predicates import Node, PredicateError, parse
from .problem import InvalidProblemError

LONGEST_NAME = 255
_SHOWN = 60

T = TypeVar("T")


def shown(value: object) -> str:
    """``value`` as an error message has it: short, and without characters that a terminal cannot show."""
    text = repr(value) if isinstance(value, str | int | float | bool | None) else type(value).__name__
    kind = {"dict": "an object", "list": "a list", "tuple": "a list"}.get(text, text)
    printable = kind.encode("utf-8", "backslashreplace").decode()
    return printable if len(printable) <= _SHOWN else f"{printable[:_SHOWN]}..."


def mapping(value: object, place: str) -> Mapping[str, object]:
    """``value``, which has to be a JSON object.

    Raises:
        InvalidProblemError: it is not, or a key is no name.
    """
    if not isinstance(value, Mapping):
        raise InvalidProblemError(f"{place}: {shown(value)} is not an object")
    for key in value:
        name(key, f"{place}, a key")
    return value


def listed(value: object, place: str, at_most: int) -> Sequence[object]:
    """``value``, which has to be a list of at most ``at_most`` entries.

    Raises:
        InvalidProblemError: it is not.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidProblemError(f"{place}: {shown(value)} is not a list")
    if len(value) > at_most:
        raise InvalidProblemError(f"{place}: {len(value):,} entries, where {at_most:,} are allowed; send fewer")
    return value


def each(value: object, place: str, at_most: int) -> Iterator[tuple[object, str]]:
    """The entries of a list, each with its place."""
    for index, entry in enumerate(listed(value, place, at_most)):
        yield entry, f"{place}[{index}]"


def name(value: object, place: str) -> str:
    """``value``, which has to be a name: 1 to 255 characters, without NUL or half of a surrogate pair.

    Raises:
        InvalidProblemError: it is not.
    """
    if not isinstance(value, str):
        raise InvalidProblemError(f"{place}: {shown(value)} is not a string")
    if not 0 < len(value) <= LONGEST_NAME:
        raise InvalidProblemError(f"{place}: a name of {len(value):,} characters; it must have 1 to {LONGEST_NAME}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidProblemError(f"{place}: {shown(value)} contains NUL or a lone surrogate")
    return value


def number(value: object, place: str, at_least: float = -math.inf, at_most: float = math.inf) -> float:
    """``value``, which has to be a finite number within bounds.

    Raises:
        InvalidProblemError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidProblemError(f"{place}: {shown(value)} is not a number")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise InvalidProblemError(f"{place}: {shown(value)} is not finite")
    if not at_least <= found <= at_most:
        above = f"at least {at_least:g}" if found < at_least else f"at most {at_most:g}"
        raise InvalidProblemError(f"{place}: {shown(value)} must be {above}")
    return found


def whole(value: object, place: str, at_least: int, at_most: int) -> int:
    """``value``, which has to be a whole number within bounds.

    Raises:
        InvalidProblemError: it is not.
    """
    found = number(value, place, at_least, at_most)
    if found != int(found):
        raise InvalidProblemError(f"{place}: {shown(value)} is not a whole number")
    return int(found)


def expression(value: object, place: str) -> Node:
    """``value`` parsed by the grammar of predicates.

    Raises:
        InvalidProblemError: it is no string, or does not parse.
    """
    if not isinstance(value, str):
        raise InvalidProblemError(f"{place}: {shown(value)} is not a string")
    try:
        return parse(value)
    except PredicateError as error:
        raise InvalidProblemError(f"{place}: {shown(value)}: {error}") from error


def optional(value: object, place: str, read: Callable[[object, str], T]) -> T | None:
    """``read(value, place)``; None where the value is absent or null."""
    return None if value is None else read(value, place)


def required(entry: Mapping[str, object], field: str, place: str) -> object:
    """The value of ``field``.

    Raises:
        InvalidProblemError: the field is missing.
    """
    if field not in entry:
        raise InvalidProblemError(f"{place}: {field!r} is missing")
    return entry[field]


def once(names: Sequence[str], place: str) -> None:
    """Requires ``names`` to differ.

    Raises:
        InvalidProblemError: a name is there twice.
    """
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidProblemError(f"{place}: the name {shown(twice)} is there more than once; names must differ")


class Ignored:
    """Counts fields that nothing reads, so that a misspelled one is seen."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, entry: Mapping[str, object], known: frozenset[str], of: str) -> None:
        """Counts the fields of ``entry`` that are not ``known``."""
        if not entry.keys() <= known:
            for field in entry.keys() - known:
                if len(self._counts) < 100 or (of, field) in self._counts:
                    self._counts[of, field] += 1

    def warnings(self) -> tuple[str, ...]:
        """A line for each ignored field."""
        return tuple(f"ignored: field {field!r} of {count:,} {of}" for (of, field), count in self._counts.items())
