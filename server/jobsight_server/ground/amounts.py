"""Amounts of memory, times and days as people, TORQUE and Slurm write them; one reader for flags, queries and bodies.

Units of memory are powers of 1024, whatever their spelling: that is what schedulers mean by them.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal

MIB = 2**20
DAY_S = 86400.0
_NUMBER = r"[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?"
_MEMORY = rf"({_NUMBER}) ?(?:([kKmMgGtTpPeE])[iI]?)?[bB]?"
_SPAN = rf"({_NUMBER}) ?(s|min|m|h|d|w|S|MIN|M|H|D|W)"
_CLOCK = r"(?:([0-9]{1,9})-)?([0-9]{1,9}(?::[0-9]{1,9}){0,3})"

# As JSON Schema has them.
MEMORY_PATTERN = f"^{_MEMORY}$"
SPAN_PATTERN = f"^(?:{_SPAN}|{_NUMBER}|{_CLOCK})$"
TIME_PATTERN = f"^(?:{_NUMBER}|{_CLOCK})$"

_memory = re.compile(_MEMORY).fullmatch
_seconds = re.compile(_NUMBER).fullmatch
_clock = re.compile(_CLOCK).fullmatch
_span = re.compile(_SPAN).fullmatch
_SPANS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_POWERS = {unit: 1024.0**power for power, unit in enumerate("kmgtpe", 1)}
_SHOWN = 60
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

_MEMORY_EXAMPLES = "bytes such as 4294967296, or with a unit such as 4096mb, 4gb or 4G"
_LATEST_S = 1e11
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_date = re.compile(_DATE).fullmatch
_moment = re.compile(
    rf"({_DATE})[T ]([0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]{{1,9}})?)?)(Z|[+ -][0-9]{{2}}:?[0-9]{{2}})?"
).fullmatch
_TIME_EXAMPLES = "seconds such as 3600, or days, hours, minutes and seconds such as 01:00:00 or 2-12:00:00"


def memory_bytes(text: str) -> float:
    """Read bytes from ``4294967296``, ``4gb``, ``4G``, ``4GiB`` or ``1.5 TB``.

    Raises:
        ValueError: the message shows valid forms.

    >>> memory_bytes("4gb") == memory_bytes("4G") == memory_bytes("4096MiB") == memory_bytes("4294967296") == 4 * 2**30
    True
    """
    found = _memory(text)
    if found is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not an amount of memory; give {_MEMORY_EXAMPLES}")
    return float(found[1]) * (_POWERS[found[4].lower()] if found[4] else 1.0)


def time_s(text: str) -> float:
    """Read seconds from ``3600``, ``MM:SS``, ``HH:MM:SS``, ``D:HH:MM:SS``, ``D-HH``, ``D-HH:MM`` or ``D-HH:MM:SS``.

    Raises:
        ValueError: the message shows valid forms.

    >>> [time_s(text) for text in ("3600", "60:00", "01:00:00", "2-12:00:00", "2:12:00:00", "2-12")]
    [3600.0, 3600.0, 3600.0, 216000.0, 216000.0, 216000.0]
    """
    if _seconds(text):
        return float(text)
    found = _clock(text)
    parts = [int(part) for part in found[2].split(":")] if found else []
    if found is None or (found[1] and len(parts) > 3):
        raise ValueError(f"{text[:_SHOWN]!r} is not a time; give {_TIME_EXAMPLES}")
    return _clock_s(found[1], parts)


def span_s(text: str) -> float:
    """Read seconds from a span such as ``6h``, ``10min``, ``1.5 d`` or ``90``, or from any time that ``time_s`` reads.

    Raises:
        ValueError: the message shows valid forms.

    >>> [span_s(text) for text in ("6h", "10min", "1.5 d", "90", "01:00:00")]
    [21600.0, 600.0, 129600.0, 90.0, 3600.0]
    """
    found = _span(text)
    if found is not None:
        return float(found[1]) * _SPANS[found[4].lower()]
    try:
        return time_s(text)
    except ValueError:
        raise ValueError(f"{text[:_SHOWN]!r} is not a run time; give 6h, 10min, 90s, 2d, {_TIME_EXAMPLES}") from None


def utc_span(text: str) -> tuple[float, float]:
    """Read begin and end of a day such as ``2026-11-22``; both are the time itself for ``2026-11-22T08:30`` (UTC
    without an offset) or ``1795305600``. UTC epoch seconds.

    Raises:
        ValueError: the message shows valid forms.

    >>> utc_span("2026-11-22"), utc_span("2026-11-22T01:00:00+01:00"), utc_span("1795305600.5")
    ((1795305600.0, 1795392000.0), (1795305600.0, 1795305600.0), (1795305600.5, 1795305600.5))
    """
    try:
        if _seconds(text) and float(text) <= _LATEST_S:
            return float(text), float(text)
        found = _moment(text)
        if found or _date(text):
            # A plus in an address is a space, unless it is escaped.
            iso = f"{found[1]}T{found[2]}{(found[3] or 'Z').replace(' ', '+')}" if found else f"{text}T00:00Z"
            begin = datetime.fromisoformat(iso).timestamp()
            if begin >= 0.0:
                return begin, begin + (0.0 if found else DAY_S)
    except (ValueError, OverflowError):
        pass
    raise ValueError(
        f"{text[:_SHOWN]!r} is not a time; give a date such as 2026-11-22, a time such as 2026-11-22T08:30:00Z, or UTC "
        "epoch seconds"
    )


def memory_text(value: float) -> str:
    """Write memory as Slurm reads it: MiB, rounded up, or whole GiB.

    >>> [memory_text(value) for value in (512, 300 * 2**20, 2.1 * 2**30, 64 * 2**30)]
    ['1M', '300M', '2151M', '64G']
    """
    mib = math.ceil(value / MIB - 1e-6)
    return f"{mib // 1024}G" if mib and mib % 1024 == 0 else f"{mib}M"


def size_text(value: float, rounding: str = ROUND_HALF_UP) -> str:
    """Write memory for people; lines to paste have ``memory_text``.

    >>> size_text(1_610_612_736)
    '1.50 GiB'
    """
    return scaled(value, 1024.0, _BINARY, "B", rounding)


def scaled(value: float, step: float, prefixes: tuple[str, ...], unit: str, rounding: str = ROUND_HALF_UP) -> str:
    """Write three digits, with the prefix of the power of ``step``."""
    number, position = abs(value), 0
    while number >= step - 0.5 and position < len(prefixes) - 1:
        number, position = number / step, position + 1
    whole = position == 0 and number == int(number)
    sign = "-" if value < 0 else ""
    return f"{sign}{f'{number:,.0f}' if whole else three_digits(number, rounding)} {prefixes[position]}{unit}"


def three_digits(value: float, rounding: str = ROUND_HALF_UP) -> str:
    """Write at least three digits, and at most two decimals."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{Decimal(fixed(value, digits, rounding)):,}"


def fixed(value: float, digits: int, rounding: str = ROUND_HALF_UP) -> str:
    """Write so many decimals, by default halves away from zero, as JavaScript's toFixed does."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding):f}"


def time_text(value: float) -> str:
    """Write a run time in whole minutes, rounded up like a limit.

    >>> [time_text(value) for value in (42, 90, 120.5, 3600, 5400, 86400, 93500)]
    ['42 s', '2 min', '3 min', '1 h', '1 h 30 min', '1 d', '1 d 1 h 59 min']
    """
    if value < 60:
        return f"{value:.0f} s"
    hours, minutes = divmod(math.ceil(value / 60), 60)
    days, hours = divmod(hours, 24)
    return " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if count)


def clock_text(value: float) -> str:
    """Write a run time as schedulers and ``time_s`` read it, rounded up to minutes.

    >>> [clock_text(value) for value in (42, 5400, 93500)]
    ['00:01:00', '01:30:00', '1-01:59:00']
    """
    days, minutes = divmod(math.ceil(value / 60), 24 * 60)
    return f"{f'{days}-' if days else ''}{minutes // 60:02}:{minutes % 60:02}:00"


def plain(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits and without an exponent.

    >>> [plain(value) for value in (0.0000361, 0.01671, 3.0, 12.345, 1234.5, -0.5)]
    ['0.0000361', '0.0167', '3', '12.3', '1,230', '-0.5']
    """
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def many(number: float, noun: str) -> str:
    """Write a whole number with its noun.

    >>> many(1, "node"), many(1234, "node")
    ('1 node', '1,234 nodes')
    """
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 0) -> str:
    """Write a share between 0 and 1, as commands print it.

    >>> percent(0.974), percent(0.042, 1), percent(-0.004)
    ('97 %', '4.2 %', '0 %')
    """
    return f"{100.0 * share:z.{digits}f} %"


def _clock_s(days: str | None, parts: list[int]) -> float:
    if days is None:  # read from the right: seconds, minutes, hours, days
        return float(sum(part * size for part, size in zip(reversed(parts), (1, 60, 3600, 86400), strict=False)))
    # After days, from the left, as Slurm has it: 2-12 is two days and twelve hours.
    return float(int(days) * 86400 + sum(part * size for part, size in zip(parts, (3600, 60, 1), strict=False)))


def day_of(time_s: float) -> int:
    """Return the UTC day, counted from 1970-01-01."""
    return int(time_s // DAY_S)
