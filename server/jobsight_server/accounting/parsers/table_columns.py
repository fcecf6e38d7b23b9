"""Logs with a line of columns before their records; and the columns of tables, with their units, and values in them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from jobsight_server.accounting.parsers.pbs import plausible_places
from jobsight_server.accounting.parsers.quantities import INT32, LATEST, number
from jobsight_server.accounting.runs import AccountingError, JobEvent
from jobsight_server.accounting.text import BYTE_ORDER_MARK, text_of

TEXTS = ("job_id", "user", "state", "failure", "name", "group", "account", "queue")
OTHERS = ("nodes", "processors", "exit_status")
TIMES = ("submitted", "eligible", "start", "end")
DURATIONS = ("requested_walltime", "used_cpu")
SIZES = ("requested_memory", "used_memory")

_MOMENTS = {"epoch_s": 1.0, "epoch_ms": 1e-3, "utc": None}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_BYTES = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_UNITS = {
    **{f"{field}_{unit}": (field, factor) for field in TIMES for unit, factor in _MOMENTS.items()},
    **{f"{field}_{unit}": (field, factor) for field in DURATIONS for unit, factor in _SECONDS.items()},
    **{f"{field}_{unit}": (field, factor) for field in SIZES for unit, factor in _BYTES.items()},
}
COLUMNS = (*TEXTS, *OTHERS, *_UNITS)
"""Every column except those of facts; a table has one of several that differ only in unit."""

FACT = "fact_"
"""Prefix of columns of facts; the rest is the name of the fact."""

_EARLIEST_MS = 2.0**33 / 1000.0  # seconds taken as milliseconds are before this
_PLACE = re.compile(r"([^\s:]{1,255})(?::([0-9]{1,7}))?", re.ASCII)


HEADER = "header"
"""The kind of the line that names the columns."""


def parser_of_rows(
    header: str, split: Callable[[str], list[str]], event_of: Callable[[dict[str, str]], JobEvent]
) -> Callable[[str], JobEvent]:
    """Return the parser for the lines of a file with this first line; ``split`` finds the values of a line."""
    columns = [name.strip() for name in split(header)]

    def parse(line: str) -> JobEvent:
        if line.removeprefix("\ufeff") == header:
            return JobEvent(HEADER, "", 0.0)
        values = split(line)
        if len(values) != len(columns):
            raise AccountingError("another number of columns than the header", f"{len(values)} of {len(columns)}")
        return event_of({name: value.strip() for name, value in zip(columns, values, strict=True)})

    return parse


_decode = msgspec.json.Decoder(dict[str, Any]).decode


def json_object(line: str) -> dict[str, Any]:
    """Return the object in a line of JSON."""
    try:
        return _decode(line)
    except msgspec.MsgspecError as error:
        raise AccountingError("not a JSON object", str(error)) from None


def is_json(beginning: bytes) -> bool:
    """Return whether a file that begins with these bytes has lines of JSON instead of a header."""
    return beginning.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{"


def header_of(beginning: bytes) -> str:
    """Return the first line of a file that begins with these bytes."""
    return text_of(beginning.removeprefix(BYTE_ORDER_MARK).partition(b"\n")[0].removesuffix(b"\r"))


def field_of(column: str) -> str:
    """Return the field of a column in any unit.

    >>> field_of("start_epoch_ms"), field_of("job_id")
    ('start', 'job_id')
    """
    return _UNITS[column][0] if column in _UNITS else column


def amount(column: str, text: str, largest: float) -> float:
    """Return the value in seconds or bytes.

    >>> amount("used_memory_mib", "1.5", 1e12), amount("requested_walltime_h", "2", 1e9)
    (1572864.0, 7200.0)
    """
    return number(column, text, largest, _UNITS[column][1] or 1.0)


def processors(column: str, text: str) -> int:
    """Return a number of processors."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) < INT32):
        raise AccountingError(f"{column} is not a number of processors", text)
    return int(text)


def seconds_of_epoch(column: str, text: str) -> float:
    """Return the time, in UTC epoch seconds.

    >>> seconds_of_epoch("start_epoch_ms", "1790000000250"), seconds_of_epoch("end_utc", "2026-09-21T14:13:20Z")
    (1790000000.25, 1790000000.0)
    """
    if _UNITS[column][1] is not None:
        found = amount(column, text, LATEST)
        if column.endswith("_ms") and 0.0 < found < _EARLIEST_MS:
            raise AccountingError(f"{column} is in the year 1970: it looks like seconds", text)
        return found
    try:
        moment = datetime.fromisoformat(text)
        found = moment.timestamp()
    except (ValueError, OverflowError):
        raise AccountingError(f"{column} is not a time such as 2026-11-20T20:00:38Z", text) from None
    if moment.tzinfo is None:
        raise AccountingError(f"{column} has no offset from UTC; end it in Z or +01:00", text)
    if not 0.0 <= found <= LATEST:
        raise AccountingError(f"{column} is negative or impossibly large", text)
    return found


def places(text: str, processors: int | None) -> dict[str, int]:
    """Return processors by node of ``n1:4 n2:4``. Without numbers, a single node has all; others are unknown, 0.

    >>> places("n1:4 n2:2 n1:1", None), places("n1", 8), places("n1 n2", 8)
    ({'n1': 5, 'n2': 2}, {'n1': 8}, {'n1': 0, 'n2': 0})
    """
    found: dict[str, int] = {}
    words = text.split()
    for word in words:
        match = _PLACE.fullmatch(word)
        if match is None:
            raise AccountingError("nodes has a part that is not NODE or NODE:PROCESSORS", word)
        known = processors if match[2] is None and len(words) == 1 else None
        found[match[1]] = found.get(match[1], 0) + int(match[2] or known or 0)
    return plausible_places("nodes", found)
