"""Sets of node names as administrators write them: ``n[001-128]``, ``login1,r[1-4]n[01-16,20]``.

A set is a pattern and never expanded: ``n[1-999999999]`` costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 4000
_PARTS_AT_MOST = 500
_DIGITS_AT_MOST = 9
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
# A name outside brackets: all characters of a host name, or of a name in an accounting log.
_LITERAL = re.compile(r"[A-Za-z0-9._:-]*", re.ASCII)

_Range = tuple[int, int, int]
"""First number, last number, digits after padding with zeros."""


class NodeNamesError(ValueError):
    """Not a valid set of node names; the message says where and why."""


class NodeNames:
    """The set of node names in one text.

    >>> names = NodeNames("n[001-128],login[1,3]")
    >>> "n007" in names, "n7" in names, "n129" in names, "login3" in names, "login2" in names
    (True, False, False, True, False)

    Raises:
        NodeNamesError: not a valid set of node names.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise NodeNamesError(f"{len(text)} characters of node names; give at most {LONGEST}")
        self._alternatives = [_parse(part, text) for part in _split(text)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(_matches(pattern, ranges, name) for pattern, ranges in self._alternatives)


@lru_cache(maxsize=1024)
def node_names(text: str) -> NodeNames:
    """Return ``NodeNames(text)``, cached: every batch is compared with those of its token."""
    return NodeNames(text)


def _split(text: str) -> list[str]:
    """Return the parts between commas that are not in brackets."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        if character in "[]":
            depth += 1 if character == "[" else -1
            if depth not in (0, 1):
                raise NodeNamesError(f"{text[:60]!r}: unexpected {character!r} at position {position + 1}")
        elif character == "," and depth == 0:
            parts.append(text[begin:position])
            begin = position + 1
    if depth:
        raise NodeNamesError(f"{text[:60]!r}: a '[' is not closed; write ranges such as n[001-128]")
    parts.append(text[begin:])
    if len(parts) > _PARTS_AT_MOST:
        raise NodeNamesError(f"{len(parts)} names with commas between them; at most {_PARTS_AT_MOST}, use ranges")
    return [part.strip() for part in parts]


def _parse(part: str, text: str) -> tuple[re.Pattern[str], list[list[_Range]]]:
    """Return a pattern with one group of digits per bracket, and the ranges of each."""
    if not part:
        raise NodeNamesError(f"{text[:60]!r}: an empty name; write names with a single comma between them")
    pieces = re.split(r"[\[\]]", part)
    for literal in pieces[::2]:
        if not _LITERAL.fullmatch(literal):
            raise NodeNamesError(f"{part[:60]!r}: {literal[:60]!r} is not part of a node name; write n[1-16]")
    for between in pieces[2:-1:2]:
        if not between.strip("0123456789"):  # otherwise a name could be parsed in two ways
            raise NodeNamesError(f"{part[:60]!r}: put a letter or a sign between two ranges")
    ranges = [[_range(one.strip(), part) for one in piece.split(",")] for piece in pieces[1::2]]
    group = f"([0-9]{{1,{_DIGITS_AT_MOST}}})"
    return re.compile(group.join(map(re.escape, pieces[::2])), re.ASCII), ranges


def _range(text: str, part: str) -> _Range:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise NodeNamesError(f"{part[:60]!r}: [{text[:60]}] is not a range; write [001-128] or [1,3,5-9]")
    low, high = match[1], match[2] or match[1]
    if len(high) > _DIGITS_AT_MOST or len(low) > len(high):
        raise NodeNamesError(
            f"{part[:60]!r}: [{text[:60]}]: give numbers of at most {_DIGITS_AT_MOST} digits, the second not shorter"
        )
    if int(low) > int(high):
        raise NodeNamesError(f"{part[:60]!r}: [{text[:60]}] runs backwards; write the smaller number first")
    return int(low), int(high), len(low)


def _matches(pattern: re.Pattern[str], ranges: list[list[_Range]], name: str) -> bool:
    match = pattern.fullmatch(name)
    return match is not None and all(
        any(low <= int(digits) <= high and digits == f"{int(digits):0{width}d}" for low, high, width in bracket)
        for digits, bracket in zip(match.groups(), ranges, strict=True)
    )
