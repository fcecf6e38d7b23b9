"""A Grid Engine job's request, from the category of its record: ``-l h_rt=60,h_vmem=2G -pe mpi 2``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES, LONGEST_S
from jobsight_server.accounting.runs import AccountingError

_RESIDENT = ("m_mem_free", "h_rss", "mem_free")
_VIRTUAL = ("h_vmem", "virtual_free")
# Resources that request memory; of each kind the first one present counts.

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([kKmMgGtT]?)", re.ASCII)
_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TIME = re.compile(r"(?:([0-9]{0,9}):)?(?:([0-9]{0,9}):)?([0-9]{1,9}(?:\.[0-9]{1,9})?)", re.ASCII)
_UNLIMITED = "infinity"


@dataclass(frozen=True, slots=True)
class Requests:
    """The requested run time, and each slot's resident and virtual memory, with the words by which they were requested.

    ``limit_s`` and ``limit_bytes``, of virtual memory: the lower of the soft and the hard limit, beyond which a job is
    signalled.
    """

    walltime_s: float | None = None
    memory_bytes: int | None = None
    memory_word: str | None = None
    virtual_bytes: int | None = None
    virtual_word: str | None = None
    limit_s: float | None = None
    limit_bytes: int | None = None


def requests_of(category: str) -> Requests:
    """Return the hard requests in a category. An unlimited resource is not requested.

    >>> asked = requests_of("-U staff -l h_rt=3600,h_vmem=2G -pe mpi 2")
    >>> asked.walltime_s, asked.virtual_bytes, asked.virtual_word, asked.limit_bytes
    (3600.0, 2147483648, 'h_vmem', 2147483648)
    >>> asked = requests_of("-soft -l h_rt=60 -hard -l h_rt=1:30:00,s_rt=60,mem_free=1.5g")
    >>> asked.walltime_s, asked.memory_bytes, asked.limit_s, asked.limit_bytes
    (5400.0, 1500000000, 60.0, None)

    Raises:
        AccountingError: a time or a size cannot be read.
    """
    asked = _resources(category)
    times = {name: _seconds(name, asked[name]) for name in ("h_rt", "s_rt") if name in asked}
    sizes = {name: _bytes(name, asked[name]) for name in (*_RESIDENT, *_VIRTUAL, "s_vmem") if name in asked}
    resident, virtual = (next(filter(sizes.get, names), None) for names in (_RESIDENT, _VIRTUAL))
    return Requests(
        walltime_s=times.get("h_rt"),
        memory_bytes=sizes.get(resident or ""),
        memory_word=resident,
        virtual_bytes=sizes.get(virtual or ""),
        virtual_word=virtual,
        limit_s=min(filter(None, times.values()), default=None),
        limit_bytes=min(filter(None, (sizes.get(name) for name in ("h_vmem", "s_vmem"))), default=None),
    )


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


def _seconds(name: str, text: str) -> float | None:
    """Return the seconds of ``3600``, ``1:00:00`` or ``:60:``-like forms, in which a missing part is 0."""
    if text.lower() == _UNLIMITED:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise AccountingError(f"{name} in category is not a time", text)
    first, second = (int(part or 0) for part in match.groups()[:2])
    hours, minutes = (first, second) if match[2] is not None else (0, first)
    value = (hours * 60 + minutes) * 60 + float(match[3])
    if value > LONGEST_S:
        raise AccountingError(f"{name} in category is not a time", text)
    return value or None


def _bytes(name: str, text: str) -> int | None:
    if text.lower() == _UNLIMITED:
        return None
    match = _SIZE.fullmatch(text)
    value = None if match is None else int(float(match[1]) * _POWERS[match[2]])
    if value is None or value > LARGEST_BYTES:
        raise AccountingError(f"{name} in category is not a size", text)
    return value or None
