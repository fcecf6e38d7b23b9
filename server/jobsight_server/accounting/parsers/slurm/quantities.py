"""Times, durations, amounts and node lists as Slurm's commands write them in text."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import product

from jobsight_server.accounting.parsers import quantities
from jobsight_server.accounting.parsers.quantities import INT32, LARGEST_BYTES, LATEST, LONGEST_INDEXED, seconds_of
from jobsight_server.accounting.runs import AccountingError

UNKNOWN = frozenset({"", "Unknown", "None", "N/A", "NONE", "(null)", "unknown", "INVALID", "Invalid"})
"""Written where there is no value."""
_UNLIMITED = frozenset({"UNLIMITED", "Partition_Limit", "PartitionLimit", "NOT_SET"})

_EPOCH = re.compile(r"[0-9]{1,11}", re.ASCII)
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:Z|[+-][0-9]{2}:?[0-9]{2})?", re.ASCII)
_AMOUNT = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([KMGTPE]?)", re.ASCII)
_OF_GPUS = re.compile(r"gres/gpumem=[0-9]{1,15}(?:\.[0-9]+)?[KMGT]?|gres/gpu[^=]*=[0-9]{1,9}", re.ASCII)
_POWERS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def moment(what: str, text: str, second: bool = False) -> float | None:
    """Return UTC epoch seconds of ``2026-11-20T18:20:15``, with its offset or in this machine's zone, or as given.

    None if unknown. A time that occurred twice, as clocks were set back, is the first one, or the ``second``.

    Raises:
        AccountingError: neither.
    """
    if text in UNKNOWN or text == "0":
        return None
    found = 0.0
    if _EPOCH.fullmatch(text):
        found = float(text)
    elif _STAMP.fullmatch(text):
        found = seconds_of(lambda date: datetime.fromisoformat(date).replace(fold=int(second)), text)
    if not 0 < found < LATEST:
        raise AccountingError(f"{what} is not a time", text)
    return found


def life(start: str, end: str, length_s: float | None) -> tuple[float | None, float | None]:
    """Return the times ``start`` and ``end``.

    If clocks were set back in between, they are ``length_s`` apart, if that is known.

    Raises:
        AccountingError: they are not times.
    """
    begun, ended = moment("Start", start), moment("End", end)
    if begun is None or ended is None or (ended >= begun and length_s in (None, ended - begun)):
        return begun, ended
    later = moment("Start", start, second=True) or begun, moment("End", end, second=True) or ended
    for one, other in ((begun, later[1]), (later[0], ended), later):
        if other - one == length_s if length_s is not None else other >= one:
            return one, other
    return begun, ended


def clock_s(what: str, text: str) -> float | None:
    """Return the seconds of a duration; None if unknown or unlimited.

    >>> clock_s("Elapsed", "1-02:00:01"), clock_s("Timelimit", "UNLIMITED")
    (93601.0, None)

    Raises:
        AccountingError: it has another form.
    """
    return None if text in UNKNOWN or text in _UNLIMITED else quantities.clock_s(what, text, "-")


def amount(what: str, text: str) -> float:
    """Return the number in ``300M``, ``1.50G`` or ``204800K``, in single units.

    >>> amount("mem", "1.50G"), amount("mem", "293029")
    (1610612736.0, 293029.0)

    Raises:
        AccountingError: it has another form, or is too large.
    """
    if match := _AMOUNT.fullmatch(text):
        found = float(f"{match[1]}.{match[2] or 0}") * (1 << _POWERS[match[3]])
        if found <= LARGEST_BYTES:
            return found
    raise AccountingError(f"{what} is not a size", text)


def tres(what: str, text: str) -> dict[str, float]:
    """Return processors, memory in bytes, nodes, processor time and GPUs of ``cpu=4,mem=1200M``; ignore others.

    Slurm writes impossible values for GPUs that it cannot read; they are left out.

    >>> tres("AllocTRES", "billing=4,cpu=4,mem=1200M,node=4"), tres("TRESUsageInTot", "cpu=00:00:03,fs/disk=25,mem=9K")
    ({'cpu': 4.0, 'mem': 1258291200.0, 'node': 4.0}, {'cpu': 3.0, 'mem': 9216.0})
    >>> tres("TRESUsageInMax", "gres/gpumem=2048M,gres/gpuutil=18446744073709551614,ic/ofed=5")
    {'gres/gpumem': 2147483648.0}

    Raises:
        AccountingError: one of these has another form.
    """
    found = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise AccountingError(f"{what} is not name=amount", text)
        if name in ("cpu", "mem", "node") or _OF_GPUS.fullmatch(part):
            found[name] = (clock_s(what, value) or 0.0) if ":" in value else amount(what, value)
            if found[name] >= INT32 and name not in ("mem", "gres/gpumem"):
                raise AccountingError(f"{what} has a count of more than 32 bits", text)
    return found


def count(what: str, text: str) -> int | None:
    """Return a whole number; None if unknown.

    Raises:
        AccountingError: it is not.
    """
    if text in UNKNOWN:
        return None
    if not _EPOCH.fullmatch(text) or int(text) >= INT32:
        raise AccountingError(f"{what} is not a whole number", text)
    return int(text)


MOST_NODES = 20_000
"""Most nodes of one job; far more than any machine has."""

# A name without brackets, or brackets with numbers and ranges; a node list alternates between them.
_NODES = re.compile(r"([^\s,\[\]]*)(?:\[([0-9,-]+)\])?")
_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_NONE = UNKNOWN | {"None assigned"}


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
        while match := _NODES.match(text, at):
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
    if any(len(name) > LONGEST_INDEXED for name in found):
        raise AccountingError("the node list has a part of unknown form", text)
    return tuple(found)


def _numbers(text: str, whole: str) -> list[str]:
    """Return the numbers in ``01-03,7``, with their zeros."""
    found: list[str] = []
    for piece in text.split(","):
        match = _NUMBERS.fullmatch(piece)
        if match is None:
            raise AccountingError("the node list has a part of unknown form", whole)
        low, high = int(match[1]), int(match[2] or match[1])
        if high < low:
            raise AccountingError("the node list has a range that falls", whole)
        if high - low + 1 + len(found) > MOST_NODES:
            raise AccountingError(f"the node list has more than {MOST_NODES} names", whole)
        found += (f"{number:0{len(match[1])}d}" for number in range(low, high + 1))
    return found
