"""The time range of a page or an answer: ``range=7d``, or ``since`` and ``until``, in its address."""

from __future__ import annotations

from typing import NamedTuple

from werkzeug.exceptions import BadRequest

from jobsight_server.ground.amounts import DAY_S, day_of
from jobsight_server.ground.parameters import OF_DAYS, RANGES
from jobsight_server.web.kit.inputs import choice_argument, given, time_argument


class TimeRange(NamedTuple):
    """Times ``since`` and ``until``, UTC epoch seconds; ``name``: the key in ``RANGES``, None for a custom range."""

    since: float
    until: float
    name: str | None

    @property
    def first_day(self) -> int:
        """Return the first UTC day, counted from 1970-01-01; 30 days have 30, the last perhaps in part."""
        if self.name is None:
            return day_of(self.since)
        return self.last_day - max(1, round(RANGES[self.name] / DAY_S)) + 1

    @property
    def last_day(self) -> int:
        """Return the last UTC day that the range touches."""
        return max(day_of(self.since), day_of(self.until - 1e-3))


def range_argument(now: float, default: str, names: tuple[str, ...] = tuple(RANGES)) -> TimeRange:
    """Return the request's time range, ``default`` if it names none.

    Raises:
        BadRequest: an unknown range, an invalid time, both ``range`` and ``since``, or an end not after the begin.
    """
    name = choice_argument("range", names)
    begin, end = time_argument("since"), time_argument("until", is_end=True)
    if name is not None and begin is not None:
        raise BadRequest(f"range={name} and since={given('since')} exclude each other; give one of them")
    until = now if end is None else end
    if begin is None:
        name = name or default
        return TimeRange(until - RANGES[name], until, name)
    if begin >= until:
        shown = "now" if end is None else f"until={given('until')}"
        raise BadRequest(f"since={given('since')} must be before {shown}")
    return TimeRange(begin, until, None)


def range_until(newest: int | None, now: float, default: str) -> TimeRange:
    """Return the request's days; without an end, until ``newest``, the last day with data."""
    return range_argument(now if newest is None else min(now, (newest + 1) * DAY_S), default, OF_DAYS)


def span_argument(now: float) -> tuple[float | None, float | None]:
    """Return ``since`` and ``until``, UTC epoch seconds; None for one that was not given.

    Raises:
        BadRequest: as ``range_argument``.
    """
    if given("range") is not None:
        span = range_argument(now, "1d")
        return span.since, None if given("until") is None else span.until
    begin, end = time_argument("since"), time_argument("until", is_end=True)
    if begin is not None and end is not None and begin >= end:
        raise BadRequest(f"since={given('since')} must be before until={given('until')}")
    return begin, end
