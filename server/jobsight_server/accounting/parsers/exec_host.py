"""The processors of a job, in every form in which TORQUE and PBS Pro write ``exec_host``."""

from __future__ import annotations

import re

from jobsight_server.accounting.runs import AccountingError

LONGEST_NAME = 255
# Far more than any machine has; a larger number is an error in the log.
MOST_PER_NODE = 65_536
MOST_PER_JOB = 10_000_000

_PART = re.compile(r"([^\s/+*]+)(?:/([0-9,-]+))?(?:\*([0-9]{1,9}))?", re.ASCII)
_SLOTS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


def processors_by_node(text: str) -> dict[str, int]:
    """Node -> processors, in the order of first mention; 0 where a job asked for none.

    >>> processors_by_node("n1/1+n1/0+n2/0-1+n1/4,6-7+n3/0*8+n4")
    {'n1': 5, 'n2': 2, 'n3': 8, 'n4': 1}

    Raises:
        AccountingError: the form is unknown, or there are more processors than any machine has.
    """
    found: dict[str, int] = {}
    for part in text.split("+"):
        match = _PART.fullmatch(part)
        if match is None or len(match[1]) > LONGEST_NAME:
            raise AccountingError("exec_host has a part of unknown form", part)
        node, slots, times = match.groups()
        count = (1 if slots is None else _count(slots, part)) * (1 if times is None else int(times))
        found[node] = found.get(node, 0) + count
        if found[node] > MOST_PER_NODE:
            raise AccountingError(f"exec_host gives a node more than {MOST_PER_NODE} processors", part)
    if sum(found.values()) > MOST_PER_JOB:
        raise AccountingError(f"exec_host gives the job more than {MOST_PER_JOB} processors")
    return found


def _count(slots: str, part: str) -> int:
    """How many slots ``0``, ``0-3`` or ``0,2-3`` name; by arithmetic, so that a huge range costs nothing."""
    count = 0
    for piece in slots.split(","):
        match = _SLOTS.fullmatch(piece)
        if match is None:
            raise AccountingError("exec_host has a part of unknown form", part)
        low = int(match[1])
        high = low if match[2] is None else int(match[2])
        if high < low:
            raise AccountingError("exec_host has a range that falls", part)
        count += high - low + 1
    return count
