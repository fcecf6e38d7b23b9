"""Times, durations and sizes as accounting logs write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from jobsight_server.accounting.runs import AccountingError

Value = TypeVar("Value")
# Larger numbers are errors in the log, and results computed from them would not fit into SQL's 64-bit integers.
LATEST = 2**33
LONGEST_S = 10**10
LARGEST_BYTES = 2**62
INT32 = 2**31
LONGEST_INDEXED = 255  # users, job ids and nodes; an index entry of PostgreSQL has at most about 2,700 bytes
LONGEST_TEXT = 4096

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no record contains."""

NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,3})?", re.ASCII)
_UNLIMITED = {"unlimited", "infinity", "infinite"}
_WHOLE = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,11}", re.ASCII)
_CLOCKS = {
    mark: re.compile(
        rf"(?:(?:([0-9]{{1,9}}){mark})?([0-9]{{1,9}}):)?([0-9]{{1,9}}):([0-9]{{1,4}}(?:\.[0-9]{{1,9}})?)", re.ASCII
    )
    for mark in ":-"
}
_SECONDS = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,9})?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18})([kmgtp]?)([bw]?)", re.ASCII)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_WORD_BYTES = 8


def number(key: str, text: str, largest: float, unit: float = 1.0) -> float:
    """Return a decimal number times ``unit``, between 0 and ``largest``."""
    if not NUMBER.fullmatch(text):
        raise AccountingError(f"{key} is not a number", text)
    if not 0.0 <= (found := float(text) * unit) <= largest:
        raise AccountingError(f"{key} is negative or impossibly large", text)
    return found


def epoch(key: str, text: str) -> float:
    """Return UTC epoch seconds.

    >>> epoch("start", "1315415070")
    1315415070.0
    """
    if not _WHOLE.fullmatch(text) or not 0 < int(text) < LATEST:
        raise AccountingError(f"{key} is not a time in epoch seconds", text)
    return float(text)


def signed(key: str, text: str) -> int:
    """Return a whole number, which may be negative: an exit status."""
    if not _SIGNED.fullmatch(text) or not -INT32 <= int(text) < INT32:
        raise AccountingError(f"{key} is not a whole number of 32 bits", text)
    return int(text)


def duration_s(key: str, text: str) -> float:
    """Return the seconds of ``D:HH:MM:SS``, where parts on the left may be missing.

    >>> duration_s("cput", "144:00:01"), duration_s("cput", "1:02:00:00"), duration_s("cput", "6")
    (518401.0, 93600.0, 6.0)
    """
    return float(text) if _SECONDS.fullmatch(text) and float(text) <= LONGEST_S else clock_s(key, text)


def clock_s(key: str, text: str, after_days: str = ":") -> float:
    """Return the seconds of ``MM:SS.mmm``, ``HH:MM:SS`` or ``D:HH:MM:SS``; Slurm has a ``-`` after the days.

    >>> clock_s("cput", "1:02:00:01"), clock_s("Elapsed", "1-02:00:01", "-"), clock_s("TotalCPU", "00:01.513")
    (93601.0, 93601.0, 1.513)
    """
    if clock := _CLOCKS[after_days].fullmatch(text):
        days, hours, minutes = (int(part or 0) for part in clock.groups()[:3])
        if (found := ((days * 24 + hours) * 60 + minutes) * 60 + float(clock[4])) <= LONGEST_S:
            return found
    raise AccountingError(f"{key} is not a duration", text)


def requested_s(key: str, text: str) -> float | None:
    """Return a requested duration in seconds; None if unlimited."""
    return None if text.lower() in _UNLIMITED else duration_s(key, text)


def size_bytes(key: str, text: str) -> int:
    """Return the bytes of ``968576kb``, ``3gb`` or a number without suffix; ``w`` counts words of 8 bytes.

    >>> size_bytes("mem", "968576kb"), size_bytes("mem", "3gb"), size_bytes("mem", "10"), size_bytes("mem", "2w")
    (991821824, 3221225472, 10, 16)
    """
    if match := _SIZE.fullmatch(text.lower()):
        value = (int(match[1]) << _POWERS[match[2]]) * (_WORD_BYTES if match[3] == "w" else 1)
        if value <= LARGEST_BYTES:
            return value
    raise AccountingError(f"{key} is not a size", text)


def requested_bytes(key: str, text: str) -> int | None:
    """Return a requested size in bytes; None if unlimited."""
    return None if text.lower() in _UNLIMITED else size_bytes(key, text)


def text_field(key: str, value: str | None, longest: int) -> str | None:
    """Return a text, None if it is empty.

    Raises:
        AccountingError: it is longer.
    """
    if value is not None and len(value) > longest:
        raise AccountingError(f"{key} is longer than {longest} characters", value)
    return value or None


def read_if_given(fields: Mapping[str, str], key: str, read: Callable[[str, str], Value | None]) -> Value | None:
    """Return the value of a field, as ``read(key, text)`` reads it; None if the record lacks the field."""
    return read(key, fields[key]) if key in fields else None


def texts_of(fields: Mapping[str, str], **keys: str) -> dict[str, Any]:
    """Return the texts of a run by their names in ``RunRecord``, each of the field with this key."""
    return {name: text_field(key, fields.get(key), LONGEST_TEXT) for name, key in keys.items()}


def seconds_of(moment: Callable[[str], datetime], text: str) -> float:
    """Return the UTC epoch seconds of a date and time; 0 if ``moment`` cannot read it, or it is out of range."""
    try:
        found = moment(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return found if 0.0 < found < LATEST else 0.0
