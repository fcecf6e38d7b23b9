"""Formats values for people, in one place; ``static/format.js`` writes the same (checked by a test).

Every function accepts None for a missing value and then returns a dash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import level_fields
from jobsight_server.ground.amounts import (
    clock_text,
    fixed,
    many,
    memory_text,
    plain,
    scaled,
    size_text,
    three_digits,
    time_text,
)
from jobsight_server.queries.rejected import REJECTIONS

DASH = "–"

_DECIMAL = ("", "k", "M", "G", "T", "P", "E")


def count(value: float | None) -> str:
    """
    >>> count(1234567)
    '1,234,567'
    """
    return DASH if value is None else f"{Decimal(fixed(value, 0)):,}"


def exceeded(needed_more: float | None, ran_out: float | None) -> str:
    """Return how many jobs exceeded their request, and how many of these failed.

    >>> exceeded(13, 13), exceeded(118, 72)
    ('13 exceeded their request; all 13 failed', '118 exceeded their request; 72 of them failed')
    >>> exceeded(20730, 0)
    '20,730 exceeded their request; none of them failed'
    """
    if not needed_more:
        return "0 exceeded their request"
    some = "none of them" if ran_out == 0 else f"{count(ran_out)} of them"
    who = f"all {count(ran_out)}" if ran_out == needed_more else some
    return f"{count(needed_more)} exceeded their request; {who} failed"


def bits_per_second(value: float | None) -> str:
    """
    >>> bits_per_second(12_345_678)
    '12.3 Mbit/s'
    """
    return DASH if value is None else scaled(value, 1000.0, _DECIMAL, "bit/s")


def size(value: float | None) -> str:
    """
    >>> size(1_610_612_736)
    '1.50 GiB'
    """
    return DASH if value is None else size_text(value)


def duration(value: float | None) -> str:
    """
    >>> [duration(seconds) for seconds in (0.25, 12.34, 15, 754, 18_720, 21_600, 273_600)]
    ['250 ms', '12.3 s', '15 s', '12 min 34 s', '5 h 12 min', '6 h', '3 d 4 h']
    """
    if value is None:
        return DASH
    sign, seconds = ("-", -value) if value < 0 else ("", value)
    if 0 < seconds < 0.9995:
        return f"{sign}{fixed(seconds * 1000, 0)} ms"
    if seconds < 59.95:
        return f"{sign}{fixed(seconds, 0 if seconds == int(seconds) else 1)} s"
    whole = int(fixed(seconds, 0))
    if whole < 3600:
        return f"{sign}{_two_units(whole // 60, 'min', whole % 60, 's')}"
    if whole < 86400:
        return f"{sign}{_two_units(whole // 3600, 'h', whole % 3600 // 60, 'min')}"
    return f"{sign}{_two_units(whole // 86400, 'd', whole % 86400 // 3600, 'h')}"


def age(value: float | None) -> str:
    """
    >>> age(90)
    '1 min 30 s ago'
    """
    return DASH if value is None else f"{duration(float(int(value)))} ago"


def share(value: float | None) -> str:
    """
    >>> share(0.876)
    '87.6 %'
    """
    return DASH if value is None else f"{fixed(value * 100, 1)} %"


def percent(value: float | None) -> str:
    """Return the same as ``share``, without decimals, for dense tables.

    >>> percent(0.876)
    '88 %'
    """
    return DASH if value is None else f"{fixed(value * 100, 0)} %"


def decimal(value: float | None) -> str:
    """
    >>> decimal(1234.56)
    '1,234.6'
    """
    return DASH if value is None else f"{Decimal(fixed(value, 1)):,}"


def brief(value: float | None) -> str:
    """Return whole numbers without decimals, others with one, and below 1 with two digits.

    >>> [brief(value) for value in (4.0, 3.87, 0.148, 0.04)]
    ['4', '3.9', '0.15', '0.04']
    """
    if value is None:
        return DASH
    return count(value) if value == int(value) else f"{value:.1f}" if value >= 0.995 else plain(value, 2)


def hours(value: float | None) -> str:
    """Return GiB-hours or processor-hours; small ones with digits enough for their shares.

    >>> [hours(value) for value in (0, 0.0142, 0.85, 1.234, 1234.5)]
    ['0.00', '0.0142', '0.850', '1.23', '1,235']
    """
    if value is not None and 0.0 < abs(value) < 0.995:
        return fixed(value, 3 if abs(value) >= 0.0995 else 4)
    return DASH if value is None else three_digits(value)


def rate(value: float | None) -> str:
    """
    >>> [rate(per_s) for per_s in (0, 8.53, 3000)]
    ['0 /s', '8.5 /s', '3,000 /s']
    """
    if value is None:
        return DASH
    return f"{fixed(value, 1)} /s" if 0 < value < 100 else f"{count(value)} /s"


def minute_rate(bars: Sequence[float] | None) -> str:
    """Return the mean of the last four of 15-second bars.

    >>> minute_rate([9, 0, 0, 0, 640])
    '160 /s'
    """
    return rate(sum(bars[-4:]) / 4) if bars else DASH


def utc(value: float | None) -> str:
    """
    >>> utc(1_700_000_000)
    '2023-11-14 22:13:20'
    """
    moment = _moment(value)
    return DASH if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def day(value: float | None) -> str:
    """
    >>> day(1_700_000_000)
    '2023-11-14 22:13'
    """
    moment = _moment(value)
    return DASH if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def text(value: object) -> str:
    return DASH if value is None or value == "" else str(value)


FORMATS: dict[str, Callable[[Any], str]] = {
    "count": count,
    "bps": bits_per_second,
    "bytes": size,
    "seconds": duration,
    "age": age,
    "share": share,
    "percent": percent,
    "decimal": decimal,
    "hours": hours,
    "rate": rate,
    "minute_rate": minute_rate,
    "utc": utc,
    "day": day,
    "text": text,
}

RESOURCE_TITLES = {"processors": "Processors", "gpus": "GPUs"} | {
    name: METRICS[name].title for name in ("memory", "runtime", "bandwidth", "gpu_memory")
}


def metric_value(value: float | None, metric: str, processors: int = 1) -> str:
    """Return a value of one metric, without the words "per processor", or its total on ``processors``.

    >>> metric_value(2**30, "memory", 16), metric_value(60.0, "runtime", 16)
    ('16.0 GiB', '1 min')
    """
    times = 1 if metric in METRICS and METRICS[metric].is_of_job else processors
    return FORMATS[METRICS[metric].format if metric in METRICS else "text"](
        value if value is None or times == 1 else value * times
    )


def resource_value(value: float | None, resource: str) -> str:
    """Return a resource of a whole job; lines to paste have the scheduler's own units instead.

    >>> [resource_value(value, of) for value, of in ((616 * 2**20, "memory"), (5400, "runtime"), (None, "memory"))]
    ['616 MiB', '1 h 30 min', '–']
    """
    write = {"processors": brief, "gpus": brief, "memory": size, "runtime": time_text}.get(resource)
    return DASH if value is None else write(value) if write else metric_value(value, resource)


def bound_value(value: float | None, of: str) -> str:
    """Return a lower bound of a metric or resource of a whole job: rounded down, as the truth may be no higher.

    >>> [bound_value(value, of) for value, of in ((68.9, "runtime"), (2.996 * 2**30, "memory"), (3.99, "processors"))]
    ['1 min 8 s', '2.99 GiB', '3.9']
    """
    if value is None:
        return DASH
    if of == "runtime":
        return duration(float(int(value)))
    if of in ("memory", "gpu_memory"):
        return size_text(value, ROUND_FLOOR)
    if of == "bandwidth":
        return scaled(value, 1000.0, _DECIMAL, "bit/s", ROUND_FLOOR)
    return brief(float(fixed(value, 1 if value >= 0.995 else 2, ROUND_FLOOR)))


_ALIKE = {
    "processors": "number of processors",
    "requested_memory_bytes": "requested memory",
    "requested_time_s": "requested run time",
    "group": "Unix group",
}


def level(value: str) -> str:
    """Return the group of jobs behind a forecast, and what they share with the job of the forecast.

    >>> [level(value) for value in ("user + queue + processors, share of request", "site")]
    ['of this user with the same queue and number of processors', 'of all users']
    """
    fields = level_fields(value)
    *rest, last = [_ALIKE.get(field, field) for field in fields if field != "user"] or [""]
    alike = f" with the same {', '.join(rest)}{' and ' if rest else ''}{last}" if last else ""
    return f"of {'this user' if 'user' in fields else 'all users'}{alike}"


FILTERS = {
    **{f"as_{name}": write for name, write in FORMATS.items()},
    "as_exceeded": exceeded,
    "as_many": many,
    "as_metric": metric_value,
    "as_resource": resource_value,
    "as_bound": bound_value,
    "as_level": level,
    "as_clock": clock_text,
    "as_plain": plain,
    "as_request": memory_text,
}
FOR_TEMPLATES = {
    "formats": FORMATS,
    "METRICS": METRICS,
    "rejection_titles": REJECTIONS,
    "resource_titles": RESOURCE_TITLES,
}


def _moment(value: float | None) -> datetime | None:
    try:
        return None if value is None else datetime.fromtimestamp(value // 1, UTC)
    except (OverflowError, OSError, ValueError):  # a year beyond any calendar
        return None


def _two_units(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large} {unit} {small} {smaller}" if small else f"{large} {unit}"
