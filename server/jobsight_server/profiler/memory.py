"""The memory of one job: its peak over all nodes together, and its time average (docs/use/definitions.md, Memory).

Nodes are read at different instants. At each reading, every other node counts with its last one, valid for two of that
node's sampling intervals, to bridge one lost reading. The first reading within a life is valid from the start on, if it
is as near. Time counts from the job's start on each node, so clocks need not agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from jobsight_server.profiler.exactness import Missing
from jobsight_server.profiler.runs import AFTER_S, FRESH_S, Readings
from jobsight_server.profiler.usage import MOST_UNKNOWN, JobInterval, pieces_of, shares_of
from jobsight_server.storage.readings.sample_columns import Floats
from jobsight_server.storage.readings.samples import read_samples

GOOD_FOR_INTERVALS = 2.0

_PER_CENT = round(MOST_UNKNOWN * 100)
TOO_FEW = Missing("fewer than 2 memory readings of {node} within its life")
UNKNOWN = Missing(f"the memory readings of {{node}} leave more than {_PER_CENT} % of its life unknown")
UNKNOWN_TOGETHER = Missing(f"its nodes' memory readings together leave more than {_PER_CENT} % of its life unknown")


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The job's memory on one node: its time average, and each reading with the time for which it is valid.

    ``since`` and ``until`` in seconds from the job's start there; ``used`` in bytes; ``life_s`` how long it ran.
    ``is_whole``: the readings cover it.
    """

    mean: float
    used: Floats
    since: Floats
    until: Floats
    life_s: float
    is_whole: bool


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Time-averaged memory of the job, and its peak over all its nodes together, in bytes; or of a part of it."""

    mean: float
    peak: float
    is_whole: bool


def node_memory(
    readings: Readings, interval: JobInterval, others: Sequence[JobInterval], idle_bytes: float
) -> NodeMemory | Missing:
    """Return the job's memory on a node that uses ``idle_bytes`` without it, from readings strictly inside its life.

    Hooks take the readings at the boundaries: before the job allocates and after it frees.
    """
    inner = inside(readings, interval)
    if np.count_nonzero(inner) < 2:
        return TOO_FEW if len(readings.time) else Missing("no samples of {node}")
    time = readings.time[inner]
    used = readings.memory_used_bytes[inner] - idle_bytes
    edges = pieces_of(time, time[0], time[-1], others)
    share = shares_of(edges, interval, others)
    at_edges = np.interp(edges, time, used)
    weights = np.where(np.diff(np.interp(edges, time, readings.gap_s[inner])) > 0, 0.0, np.diff(edges))
    if weights.sum() <= 0:
        return TOO_FEW
    mean = float((weights * share * (at_edges[1:] + at_edges[:-1]) / 2).sum() / weights.sum())
    if mean < 0:
        return Missing("{node} used less memory during its life than before")
    # Just after an edge the next piece counts; for the last reading, the piece before.
    pieces = np.minimum(np.searchsorted(edges, time), len(share) - 1)
    good_for_s = GOOD_FOR_INTERVALS * interval_of(readings.time)
    life_s = interval.end - interval.start
    since, until = time - interval.start, np.append(time[1:], interval.end) - interval.start
    until = np.minimum(until, since + good_for_s)
    since[0] = max(0.0, since[0] - good_for_s)
    is_whole = bool((until - since).sum() >= (1.0 - MOST_UNKNOWN) * life_s)
    return NodeMemory(mean, used * share[pieces], since, until, life_s, is_whole)


def interval_of(time: Floats) -> float:
    """Return the interval of the agent's regular readings: the median, or if longer the interval in which half of the
    time passes, since hooks of other jobs add readings that shorten the median. The longest is left out, as it may be
    an outage.
    """
    steps = np.sort(np.diff(time))
    median = float(np.median(steps))
    passed = steps[:-1].cumsum()
    if not len(passed):
        return median
    return max(median, float(steps[np.searchsorted(passed, passed[-1] / 2)]))


def inside(readings: Readings, interval: JobInterval) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which memory readings lie strictly inside the life."""
    has = np.isfinite(readings.memory_used_bytes)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        has & (readings.time > interval.start) & (readings.time < interval.end)
    )
    return found


def together(nodes: Sequence[NodeMemory]) -> MemoryUse:
    """Return the sum of the time averages, and the largest sum over all ``nodes`` at one reading.

    Without enough readings of all nodes at a time, the largest sum over those that were read.
    """
    time = np.concatenate([part for node in nodes for part in (node.since, node.until)])
    change = np.concatenate([part for node in nodes for part in (node.used, -node.used)])
    known = np.concatenate([part for node in nodes for part in (np.ones(len(node.used)), -np.ones(len(node.used)))])
    order = np.argsort(time, kind="stable")
    time = time[order]
    last = np.append(np.diff(time) > 0, True)  # of all changes at one instant
    total, count = np.cumsum(change[order])[last], np.cumsum(known[order])[last]
    complete = count > len(nodes) - 0.5
    seconds = np.append(np.diff(time[last]), 0.0)[complete].sum()
    is_whole = bool(seconds >= (1.0 - MOST_UNKNOWN) * max(node.life_s for node in nodes))
    peak = max(0.0, float((total[complete] if is_whole else total).max()))
    return MemoryUse(sum(node.mean for node in nodes), peak, is_whole and all(node.is_whole for node in nodes))


NOT_KNOWN = Missing("the idle memory of {node} is unknown: no reading without a job within a day")

# Accounting logs give the second in which a job ended; its processes may exist until the next second.
_ENDING_S = 1.0
# The latest idle times are enough: a node that is hardly ever idle would be searched for ever.
_MOST_GAPS = 100


@dataclass(frozen=True, slots=True)
class Idle:
    """An idle level in bytes, read ``age_s`` before or after the life that uses it."""

    bytes: float
    age_s: float
    remembered: bool = False


def idle_beside(
    readings: Readings, interval: JobInterval, start_marked: bool, end_marked: bool, others: Sequence[JobInterval]
) -> Idle | None:
    """Return the idle level from the readings next to the life; None if none of them shows the node without a job.

    The reading at its start mark, else the last one before the start, else the one at its end mark, else the first
    one after the end. ``others`` are all other jobs of the node near that time.
    """
    time, used = readings.time, readings.memory_used_bytes
    has = np.isfinite(used)
    before = np.flatnonzero(has & (time <= interval.start if start_marked else time < interval.start))
    after = np.flatnonzero(has & (time >= interval.end if end_marked else time > interval.end))
    for index, most_s in (*((i, FRESH_S) for i in before[-1:]), *((i, AFTER_S) for i in after[:1])):
        age_s = max(interval.start - time[index], time[index] - interval.end)
        if age_s <= most_s and not any(other.start < time[index] < other.end for other in others):
            return Idle(float(used[index]), float(age_s))
    return None


def idle_before(connection: Connection, node_id: int, start: float, others: Sequence[JobInterval]) -> Idle | None:
    """Return the node's last idle level before ``start``, at most a day old; ``others`` are its jobs of that day."""
    for since, until in _idle_times(start, others):
        found = read_samples(connection, node_id, since, until)
        known = np.flatnonzero(np.isfinite(found.memory_used_bytes) & (found.time > since) & (found.time < until))
        if len(known):
            last = known[-1]
            return Idle(float(found.memory_used_bytes[last]), start - float(found.time[last]), remembered=True)
    return None


def _idle_times(start: float, others: Sequence[JobInterval]) -> Iterator[tuple[float, float]]:
    """Yield the times without a job on the node within a day before ``start``, latest first."""
    until, found = start, 0
    for other in sorted(others, key=lambda other: other.end, reverse=True):
        if other.start >= until:
            continue
        since = max(other.end + _ENDING_S, start - FRESH_S)
        if since < until:
            yield since, until
            found += 1
        until = min(until, other.start)
        if until <= start - FRESH_S or found == _MOST_GAPS:
            return
    if until > start - FRESH_S:
        yield start - FRESH_S, until
