"""The names in a node list of Slurm: ``n[01-03,7],gpu1``, ``r[1-2]n[1-4]-ib``."""

from __future__ import annotations

import re
from itertools import product

from jobsight_server.accounting.runs import AccountingError

MOST_NODES = 20_000
"""Most nodes of one job; far more than any machine has."""
LONGEST_NAME = 255

# A name without brackets, or brackets with numbers and ranges; a node list alternates between them.
_PIECE = re.compile(r"([^\s,\[\]]*)(?:\[([0-9,-]+)\])?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_NONE = frozenset({"", "None assigned", "(null)", "None", "Unknown", "N/A"})


def node_names(text: str) -> tuple[str, ...]:
    """Return the names, in order; none if the job had no nodes.

    >>> node_names("n[01-03,7],gpu1")
    ('n01', 'n02', 'n03', 'n7', 'gpu1')
    >>> node_names("r[1-2]n[8-9]-ib"), node_names("None assigned")
    (('r1n8-ib', 'r1n9-ib', 'r2n8-ib', 'r2n9-ib'), ())

    Raises:
        AccountingError: it has another form, or more than 20,000 names.
    """
    if text in _NONE:
        return ()
    found: dict[str, None] = {}
    at = 0
    while at <= len(text):
        pieces: list[list[str]] = []
        count = 1
        while match := _PIECE.match(text, at):
            if not match[0]:
                break
            pieces.append([match[1]])
            if match[2] is not None:
                pieces.append(_numbers(match[2], text))
                count *= len(pieces[-1])
            at = match.end()
        if not pieces or (at < len(text) and text[at] != ","):
            raise AccountingError("the node list has a part of unknown form", text)
        if len(found) + count > MOST_NODES:
            raise AccountingError(f"the node list has more than {MOST_NODES} names", text)
        found |= dict.fromkeys("".join(parts) for parts in product(*pieces))
        at += 1
    if any(len(name) > LONGEST_NAME for name in found):
        raise AccountingError("the node list has a part of unknown form", text)
    return tuple(found)


def _numbers(text: str, whole: str) -> list[str]:
    """Return the numbers in ``01-03,7``, with their zeros."""
    found: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise AccountingError("the node list has a part of unknown form", whole)
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise AccountingError("the node list has a range that falls", whole)
        if high - low + 1 + len(found) > MOST_NODES:
            raise AccountingError(f"the node list has more than {MOST_NODES} names", whole)
        found += (f"{number:0{len(match[1])}d}" for number in range(low, high + 1))
    return found
