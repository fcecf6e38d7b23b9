"""The base of the records of a batch: bounds for msgspec, and checks beyond a schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from jobsight_scheduler.matching.predicates import Node, PredicateError, parse

T = TypeVar("T")

_SHOWN = 60
_PATH = re.compile(r"^(.*) - at `\$(.*?)`$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")

Text = Annotated[str, Meta(max_length=255, pattern=r"\A[^\0]*\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\A[^\0]*\Z")]
Amount = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Hour = Annotated[float, Meta(ge=0, le=24)]
Many = Meta(max_length=1_000)
Scalar = bool | float | Text


class InvalidProblemError(ValueError):
    """An invalid batch, resource or objective; the message has the place, the value and what to do."""


class BatchRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A record of a batch. Errors in a field begin with ``.FIELD: ``."""


def decoded(value: object, kind: type[T], place: str = "") -> T:
    """Convert ``value``, a decoded JSON document, to a record of this kind.

    Raises:
        InvalidProblemError: it is none; the message has the place and the value.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = _PATH.match(str(error))
        problem, path = (found[1], found[2]) if found else (str(error), "")
        place = f"{place}{path}".lstrip(".")
        if isinstance(error.__cause__, InvalidProblemError):  # a record's own check
            raise InvalidProblemError(f"{place}{'' if problem[0] in '.[' else ': '}{problem}".lstrip(".")) from error
        at = value
        for key, index in _STEP.findall(path.split("[...]")[0]):  # msgspec does not name the entry of an object
            at = at[key] if key and isinstance(at, dict) else at[int(index)] if isinstance(at, list) else at
        raise InvalidProblemError(f"{place or 'the batch'}: {problem}; it is {shown(at)}") from error


def expression(place: str, text: str) -> Node:
    """Parse ``text`` by the grammar of predicates.

    Raises:
        InvalidProblemError: it does not parse.
    """
    try:
        return parse(text)
    except PredicateError as error:
        raise InvalidProblemError(f"{place}: {shown(text)}: {error}") from error


def once(place: str, names: Sequence[str]) -> None:
    """Require ``names`` to differ.

    Raises:
        InvalidProblemError: a name is there twice.
    """
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidProblemError(f"{place}: the name {shown(twice)} is there more than once; names must differ")


def shown(value: object) -> str:
    """Write ``value`` for an error message: short, without characters that a terminal cannot show."""
    text = repr(value).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
