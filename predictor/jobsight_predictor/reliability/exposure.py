"""How long machines were available, cut at each hour of the week and at each bound of a session's age."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .resource_vector import Floats
from .sessions import Session

HOUR_S = 3600.0
WEEK_HOURS = 168
LONGEST_STRETCH_S = 92 * 86_400.0

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Exposure:
    """Stretches of sessions, each of shape (stretches,): machine number, begin of the session, the stretch observed,
    and whether the session ended with it by the machine becoming unavailable.
    """

    machine: Ints
    began_s: Floats
    from_s: Floats
    to_s: Floats
    ended: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches cut so that each lies in one hour of the week and one range of ages; shape (pieces,)."""

    machine: Ints
    hour: Ints
    age: Ints
    seconds: Floats
    events: Floats


def of_sessions(sessions: Iterable[tuple[int, Session]]) -> Exposure:
    """Whole sessions, each with the number of its machine. For an open session make an ``Exposure`` with ``ended``
    False.
    """
    rows = [(number, one.start_s, one.end_s, one.is_event) for number, one in sessions]
    machine, start_s, end_s, is_event = zip(*rows, strict=True) if rows else ((), (), (), ())
    began = np.array(start_s, dtype=np.float64)
    return Exposure(
        np.array(machine, dtype=np.int64), began, began, np.array(end_s, dtype=np.float64), np.array(is_event, np.bool_)
    )


def hour_of_week(time_s: NDArray[np.floating[Any]], utc_offset_s: float = 0.0) -> Ints:
    """0 for Monday 00:00 to 01:00, local time, up to 167. 1 January 1970 was a Thursday."""
    hours = np.floor((time_s + utc_offset_s) / HOUR_S).astype(np.int64)
    of_week: Ints = (hours + 72) % WEEK_HOURS
    return of_week


def cut(exposure: Exposure, age_bounds_s: Floats, utc_offset_s: float = 0.0) -> Pieces:
    """``exposure`` in pieces. ``age_bounds_s`` ascend from 0; the last range of ages has no end.

    Of a longer stretch only the last ``LONGEST_STRETCH_S`` count.
    """
    to_s = np.maximum(exposure.to_s, exposure.from_s)
    from_s = np.maximum(exposure.from_s, to_s - LONGEST_STRETCH_S)
    first = np.floor((from_s + utc_offset_s) / HOUR_S)
    count = np.maximum(np.ceil((to_s + utc_offset_s) / HOUR_S) - first, 1.0).astype(np.int64)
    row, place = _repeated(count)
    clock = (first[row] + place) * HOUR_S - utc_offset_s
    begin, end = np.maximum(clock, from_s[row]), np.minimum(clock + HOUR_S, to_s[row])
    last = place == count[row] - 1
    age_from, age_to = begin - exposure.began_s[row], end - exposure.began_s[row]
    low = np.maximum(np.searchsorted(age_bounds_s, age_from, side="right") - 1, 0)
    high = np.maximum(np.searchsorted(age_bounds_s, age_to, side="left") - 1, low)
    piece, step = _repeated(high - low + 1)
    age = low[piece] + step
    bounds = np.append(age_bounds_s, np.inf)
    seconds = np.minimum(age_to[piece], bounds[age + 1]) - np.maximum(age_from[piece], bounds[age])
    stretch = row[piece]
    events = exposure.ended[stretch] & last[piece] & (age == high[piece])
    hour = hour_of_week(clock[piece] + HOUR_S / 2.0, utc_offset_s)
    return Pieces(exposure.machine[stretch], hour, age, np.maximum(seconds, 0.0), events.astype(np.float64))


def _repeated(count: Ints) -> tuple[Ints, Ints]:
    """Row i ``count[i]`` times, and 0, 1, ... within each row."""
    row = np.repeat(np.arange(len(count)), count)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
