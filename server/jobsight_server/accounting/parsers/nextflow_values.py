"""Values of Nextflow's trace files, human-readable or raw."""

from __future__ import annotations

import re
from datetime import datetime
from math import inf

from jobsight_server.accounting.parsers.quantities import LARGEST_BYTES, LATEST, LONGEST_S
from jobsight_server.accounting.runs import AccountingError
from jobsight_server.amounts import memory_bytes

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,9})?"
_PART = re.compile(rf"({_NUMBER}) ?(ms|s|m|h|d)", re.ASCII)
_DURATION = re.compile(rf"{_PART.pattern}(?: {_PART.pattern})*", re.ASCII)
_RAW = re.compile(r"[0-9]{1,16}", re.ASCII)
_LOAD = re.compile(rf"({_NUMBER})%?", re.ASCII)
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def size_bytes(column: str, text: str) -> int:
    """Bytes; units are powers of 1024.

    >>> size_bytes("peak_rss", "1.5 GB"), size_bytes("peak_rss", "3145728"), size_bytes("memory", "0")
    (1610612736, 3145728, 0)
    """
    try:
        value = memory_bytes(text)
    except ValueError:
        value = inf
    if value > LARGEST_BYTES:
        raise AccountingError(f"{column} is not an amount of memory", text)
    return round(value)


def duration_s(column: str, text: str) -> float:
    """Seconds; a number alone is in milliseconds.

    >>> duration_s("realtime", "1d 2h 3s"), duration_s("realtime", "1.2s"), duration_s("realtime", "350")
    (93603.0, 1.2, 0.35)
    """
    if _RAW.fullmatch(text):
        value = int(text) / 1000
    elif _DURATION.fullmatch(text):
        value = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    else:
        raise AccountingError(f"{column} is not a duration", text)
    if value > LONGEST_S:
        raise AccountingError(f"{column} is not a duration", text)
    return value


def instant(column: str, text: str) -> float:
    """UTC epoch seconds; a number alone is in milliseconds. Other times are local, in the zone of this machine.

    >>> instant("submit", "1719302359716")
    1719302359.716
    """
    try:
        value = int(text) / 1000 if _RAW.fullmatch(text) else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        value = 0.0
    if not 0.0 < value < LATEST:
        raise AccountingError(f"{column} is not a time such as 2026-11-20 20:00:38.123", text)
    return value


def percent(column: str, text: str) -> float:
    """The share of a processor: 2 is two processors.

    >>> percent("%cpu", "198.5%")
    1.985
    """
    match = _LOAD.fullmatch(text)
    if match is None or float(match[1]) > 1e8:
        raise AccountingError(f"{column} is not a percentage", text)
    return float(match[1]) / 100
