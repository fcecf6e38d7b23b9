"""What one job moved and computed on one node: pure arithmetic on readings (docs/definitions.md, Bandwidth).

Between two readings the counters are assumed to rise evenly. If the node was shared, each piece between two
events (a job starts or ends there) is split by the processors that the jobs hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from jobsight_server.profiler.readings import Floats, Readings

# A job has no value if more than this share of its life is unknown.
MOST_UNKNOWN = 0.1
# Counters move in steps; over less than this, a rate means nothing. Below a second, so that agents that read every
# second count although their intervals jitter.
SHORTEST_PEAK_S = 0.5


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is no value; ``kind`` has a placeholder for the node's name, so that it can be counted without."""

    kind: str
    node: str = ""

    @property
    def reason(self) -> str:
        return self.kind.format(node=self.node)

    @property
    def label(self) -> str:
        return self.kind.format(node="a node")


class JobInterval(NamedTuple):
    """A job's time on a node, ``start`` to ``end`` in the node's clock, with ``processors`` of it."""

    start: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True)
class Rates:
    """The job's rate per second, on average and at most in a sampling interval; one entry per counter."""

    mean: Floats
    peak: Floats | None


def network(readings: Readings, interval: JobInterval, others: Sequence[JobInterval]) -> Rates | Missing:
    """Bytes per second in and out."""
    return _rates("network", readings, (readings.net_in_bytes, readings.net_out_bytes), interval, others)


def cpu(readings: Readings, interval: JobInterval, others: Sequence[JobInterval]) -> Rates | Missing:
    """CPU seconds per second."""
    return _rates("CPU", readings, (readings.cpu_busy_s,), interval, others)


def _rates(
    what: str, readings: Readings, counters: Sequence[Floats], interval: JobInterval, others: Sequence[JobInterval]
) -> Rates | Missing:
    if not len(readings.time):
        return Missing("no samples of {node}")
    has = np.logical_and.reduce([np.isfinite(counter) for counter in counters])
    if not has.any():
        return Missing(f"no {what} readings of {{node}}")
    near = _around(readings.time[has], interval)
    time, gap = readings.time[has][near], readings.gap_s[has][near]
    columns = np.array([counter[has][near] for counter in counters])
    if len(time) < 2:
        return Missing(f"fewer than 2 {what} readings of {{node}} around its life")
    if (columns[:, 1:] < columns[:, :-1]).any():
        return Missing(f"the {what} counters of {{node}} run backwards")
    edges = pieces_of(time, interval.start, interval.end, others)
    # Plain operators: for so short arrays numpy's own `clip` and `diff` take longer than their work does.
    within = np.minimum(np.maximum(edges, time[0]), time[-1])
    unknown_until = np.interp(within, time, gap) + (edges - within)
    widths = edges[1:] - edges[:-1]
    known = np.minimum(np.maximum(widths - (unknown_until[1:] - unknown_until[:-1]), 0.0), widths)
    known_s = float(known.sum())
    if known_s < (1.0 - MOST_UNKNOWN) * (interval.end - interval.start):
        share = round(MOST_UNKNOWN * 100)
        return Missing(f"the {what} readings of {{node}} leave more than {share} % of its life unknown")
    at_edges = np.array([np.interp(within, time, column) for column in columns])
    amounts = at_edges[:, 1:] - at_edges[:, :-1]
    amounts = np.where(known > 0, amounts, 0.0) * shares_of(edges, interval, others)
    return Rates(amounts.sum(axis=1) / known_s, _peak(edges, time, interval, known, amounts))


def _peak(edges: Floats, time: Floats, interval: JobInterval, known: Floats, amounts: Floats) -> Floats | None:
    """The highest rate over a whole sampling interval, cut at the boundaries of the life."""
    at = edges.searchsorted(pieces_of(time, interval.start, interval.end, ()))
    known_until = np.zeros(len(edges))
    known.cumsum(out=known_until[1:])
    amount_until = np.zeros((len(amounts), len(edges)))
    amounts.cumsum(axis=1, out=amount_until[:, 1:])
    known_until, amount_until, bounds = known_until[at], amount_until[:, at], edges[at]
    seconds = known_until[1:] - known_until[:-1]
    usable = (seconds >= SHORTEST_PEAK_S) & (seconds > 0.999 * (bounds[1:] - bounds[:-1]))
    if not usable.any():
        return None
    moved = amount_until[:, 1:] - amount_until[:, :-1]
    peak: Floats = (moved[:, usable] / seconds[usable]).max(axis=1)
    return peak


def _around(time: Floats, interval: JobInterval) -> slice:
    """The readings from the last at or before the start to the first at or after the end.

    If the two readings around a boundary are further apart than the life is long, they tell nothing about it: the one
    outside is left out, and what it would have covered counts as unknown.
    """
    life = interval.end - interval.start
    first = int(np.searchsorted(time, interval.start, "right")) - 1
    if first < 0 or (time[first] < interval.start and first + 1 < len(time) and time[first + 1] - time[first] > life):
        first += 1
    last = int(np.searchsorted(time, interval.end, "left"))
    if last == len(time) or (time[last] > interval.end and last > 0 and time[last] - time[last - 1] > life):
        last -= 1
    return slice(first, max(first, last + 1))


def pieces_of(time: Floats, start: float, end: float, others: Sequence[JobInterval]) -> Floats:
    """Boundaries of the pieces of [start, end]: readings, and events of the node's other jobs."""
    inside = time[np.searchsorted(time, start, "right") : np.searchsorted(time, end, "left")]
    events = [event for other in others for event in (other.start, other.end) if start < event < end]
    edges = np.concatenate(([start], inside, [end]))
    return np.unique(np.concatenate((edges, events))) if events else edges


def shares_of(edges: Floats, interval: JobInterval, others: Sequence[JobInterval]) -> Floats:
    """The job's share of each piece, by processors held; the job itself is there all the time."""
    if not others:
        return np.ones(len(edges) - 1)
    middle = (edges[1:] + edges[:-1]) / 2
    starts, ends, processors = np.array(others, dtype=np.float64).T
    there = (starts[:, None] <= middle) & (middle < ends[:, None])
    shares: Floats = interval.processors / (interval.processors + processors @ there)
    return shares
