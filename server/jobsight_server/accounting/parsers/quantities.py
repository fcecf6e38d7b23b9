"""Times, durations and sizes as accounting logs write them."""

from __future__ import annotations

import re

from jobsight_server.accounting.runs import AccountingError

# Larger numbers are errors in the log, and results computed from them would not fit into SQL's 64-bit integers.
LATEST = 2**33
LONGEST_S = 10**10
LARGEST_BYTES = 2**62
INT32 = 2**31
LONGEST_INDEXED = 255  # users and job ids; an index entry of PostgreSQL has at most about 2,700 bytes
LONGEST_TEXT = 4096

_UNLIMITED = {"unlimited", "infinity", "infinite"}
_WHOLE = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,11}", re.ASCII)
_CLOCK = re.compile(r"(?:(?:([0-9]{1,9}):)?([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,4}(?:\.[0-9]{1,9})?)", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,11}(?:\.[0-9]{1,9})?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,18})([kmgtp]?)([bw]?)", re.ASCII)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_WORD_BYTES = 8


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
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes = (int(part or 0) for part in clock.groups()[:3])
        value = ((days * 24 + hours) * 60 + minutes) * 60 + float(clock[4])
    elif _SECONDS.fullmatch(text):
        value = float(text)
    else:
        raise AccountingError(f"{key} is not a duration", text)
    if value > LONGEST_S:
        raise AccountingError(f"{key} is not a duration", text)
    return value


def requested_s(key: str, text: str) -> float | None:
    """Return a requested duration in seconds; None if unlimited."""
    return None if text.lower() in _UNLIMITED else duration_s(key, text)


def size_bytes(key: str, text: str) -> int:
    """Return the bytes of ``968576kb``, ``3gb`` or a number without suffix; ``w`` counts words of 8 bytes.

    >>> size_bytes("mem", "968576kb"), size_bytes("mem", "3gb"), size_bytes("mem", "10"), size_bytes("mem", "2w")
    (991821824, 3221225472, 10, 16)
    """
    if not (match := _SIZE.fullmatch(text.lower())):
        raise AccountingError(f"{key} is not a size", text)
    number, power, unit = match.groups()
    value = int(number) << _POWERS[power]
    value *= _WORD_BYTES if unit == "w" else 1
    if value > LARGEST_BYTES:
        raise AccountingError(f"{key} is not a size", text)
    return value


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
