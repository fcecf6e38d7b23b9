"""The nodes of a place, by number from 0, as text: ``0-7,12``."""

from __future__ import annotations

from collections.abc import Iterable


def places_text(nodes: Iterable[int]) -> str:
    """
    >>> places_text([12, 0, 1, 2, 3])
    '0-3,12'
    """
    ranges: list[list[int]] = []
    for node in sorted(nodes):
        if ranges and ranges[-1][1] == node - 1:
            ranges[-1][1] = node
        else:
            ranges.append([node, node])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def places_of(text: str) -> list[tuple[int, int]]:
    """The ranges in the output of ``places_text``: first and last node of each.

    >>> places_of("0-3,12")
    [(0, 3), (12, 12)]
    """
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append((int(first), int(last or first)))
    return found


def nodes_of(text: str) -> list[int]:
    """
    >>> nodes_of("0-3,12")
    [0, 1, 2, 3, 12]
    """
    return [node for first, last in places_of(text) for node in range(first, last + 1)]
