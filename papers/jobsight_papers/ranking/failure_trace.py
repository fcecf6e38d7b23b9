"""Availability of machines of the Failure Trace Archive, from its table ``event_trace.tab``.

A line is an event of a node: event, component, node, platform, the node's name, 1 for available or 0 for unavailable,
start and stop in seconds since 1970, and the reason of the end; tabs or blanks separate columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from jobsight_papers.ranking.owners import Availability

_NODE, _PLATFORM, _TYPE, _START, _STOP = 2, 3, 5, 6, 7

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class FailureTrace:
    """``availability`` of machines by number. ``skipped`` counts lines by reason."""

    availability: Availability
    skipped: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.availability.begins)


def read_failure_trace(lines: Iterable[str]) -> FailureTrace:
    """Read the machines, in the order of the table.

    A machine was available during its events of availability; one without them, at all times between its other events.

    Raises:
        ValueError: no line is an event; the message has the first one.
    """
    skipped: Counter[str] = Counter()
    first = ""
    of: dict[tuple[str, str], tuple[list[Interval], list[Interval]]] = {}
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        first = first or line.strip()
        columns = line.split("\t") if line.count("\t") >= _STOP else line.split()
        fault = _fault(columns)
        if fault:
            skipped[fault] += 1
            continue
        machine = columns[_PLATFORM].strip(), columns[_NODE].strip()
        events = of.setdefault(machine, ([], []))
        events[int(columns[_TYPE])].append((float(columns[_START]), float(columns[_STOP])))
    if not of:
        shown = f"; the first line is {first[:80]!r}" if first else ": it is empty"
        raise ValueError(f"no event of a Failure Trace Archive event_trace.tab{shown}")
    every = [one for events in of.values() for kind in events for one in kind]
    from_s, to_s = min(start for start, _ in every), max(stop for _, stop in every)
    sessions = [_union(there) if there else _between(_union(away), from_s, to_s) for away, there in of.values()]
    availability = Availability(
        [np.array([start for start, _ in own], dtype=np.float64) for own in sessions],
        [np.array([stop for _, stop in own], dtype=np.float64) for own in sessions],
        from_s,
        to_s,
    )
    return FailureTrace(availability, skipped)


def _fault(columns: list[str]) -> str:
    """Return why a line is not a usable event; empty if it is."""
    if len(columns) <= _STOP:
        return "fewer than 8 columns"
    if columns[_TYPE].strip() not in ("0", "1"):
        return "neither availability (1) nor unavailability (0)"
    try:
        start, stop = float(columns[_START]), float(columns[_STOP])
    except ValueError:
        return "start or stop is not a number"
    if not (isfinite(start) and isfinite(stop)):
        return "start or stop is not a number"
    return "" if stop > start else "stops before it starts, or at once"


def _union(intervals: list[Interval]) -> list[Interval]:
    """Sort intervals, and join those that overlap or touch."""
    found: list[Interval] = []
    for start, stop in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return found


def _between(away: list[Interval], from_s: float, to_s: float) -> list[Interval]:
    starts = [from_s, *(stop for _, stop in away)]
    stops = [*(start for start, _ in away), to_s]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if stop > start]
