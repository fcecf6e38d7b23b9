"""Checks that a schema cannot express: texts that are expressions, names that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .documents import shown
from .predicates import Node, PredicateError, parse
from .problem import InvalidProblemError


def expression(text: str, place: str) -> Node:
    """``text`` parsed by the grammar of predicates.

    Raises:
        InvalidProblemError: it does not parse.
    """
    try:
        return parse(text)
    except PredicateError as error:
        raise InvalidProblemError(f"{place}: {shown(text)}: {error}") from error


def once(names: Sequence[str], place: str) -> None:
    """Requires ``names`` to differ.

    Raises:
        InvalidProblemError: a name is there twice.
    """
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InvalidProblemError(f"{place}: the name {shown(twice)} is there more than once; names must differ")
