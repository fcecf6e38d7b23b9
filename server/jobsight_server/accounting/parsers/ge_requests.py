"""What a Grid Engine job requested, from the category of its record: ``-l h_rt=60,h_vmem=2G -pe mpi 2``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES, LONGEST_S
from jobsight_server.accounting.runs import AccountingError

_RESIDENT = ("m_mem_free", "h_rss", "mem_free")
_MEMORY = ("h_vmem", *_RESIDENT, "virtual_free")
"""What may request memory, the first one counts."""

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kKmMgGtT]?)", re.ASCII)
_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIME = re.compile(r"(?:([0-9]{0,9}):)?(?:([0-9]{0,9}):)?([0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII)
_UNLIMITED = "infinity"


@dataclass(frozen=True, slots=True)
class Requests:
    """The requested run time, and the memory of each slot; ``of_resident``: that is resident memory, not virtual."""

    walltime_s: float | None = None
    memory_bytes: int | None = None
    of_resident: bool = False


def requests_of(category: str) -> Requests:
    """The hard requests in a category. What is unlimited is not requested.

    >>> requests_of("-U staff -l h_rt=3600,h_vmem=2G -pe mpi 2")
    Requests(walltime_s=3600.0, memory_bytes=2147483648, of_resident=False)
    >>> requests_of("-soft -l h_rt=60 -hard -l h_rt=1:30:00,mem_free=1.5g")
    Requests(walltime_s=5400.0, memory_bytes=1500000000, of_resident=True)

    Raises:
        AccountingError: a time or a size cannot be read.
    """
    asked = _resources(category)
    walltime_s = _seconds(asked["h_rt"]) if "h_rt" in asked else None
    for name in _MEMORY:
        if name in asked and (size := _bytes(name, asked[name])) is not None:
            return Requests(walltime_s, size, name in _RESIDENT)
    return Requests(walltime_s)


def _resources(category: str) -> dict[str, str]:
    found: dict[str, str] = {}
    hard, before = True, ""
    for word in category.split():
        if before == "-l" and hard:
            pairs = (pair.partition("=") for pair in word.split(","))
            found |= {name: value for name, equals, value in pairs if equals}
        hard = {"-soft": False, "-hard": True}.get(word, hard)
        before = word
    return found


def _seconds(text: str) -> float | None:
    """Seconds of ``3600``, ``1:00:00`` or ``:60:``-like forms, in which a missing part is 0."""
    if text.lower() == _UNLIMITED:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise AccountingError("h_rt in category is not a time", text)
    first, second = (int(part or 0) for part in match.groups()[:2])
    hours, minutes = (first, second) if match[2] is not None else (0, first)
    value = (hours * 60 + minutes) * 60 + float(match[3])
    if value > LONGEST_S:
        raise AccountingError("h_rt in category is not a time", text)
    return value or None


def _bytes(name: str, text: str) -> int | None:
    if text.lower() == _UNLIMITED:
        return None
    match = _SIZE.fullmatch(text)
    value = None if match is None else int(float(match[1]) * _POWERS[match[2]])
    if value is None or value > LARGEST_BYTES:
        raise AccountingError(f"{name} in category is not a size", text)
    return value or None
