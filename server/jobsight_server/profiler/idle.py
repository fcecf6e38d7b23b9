"""How much memory a node uses without any job: read near a run's life, or remembered from before it.

Only a reading with no job on the node shows it. Unknown is not zero (docs/definitions.md, Memory).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from jobsight_server.profiler.readings import Readings
from jobsight_server.profiler.usage import JobInterval, Missing
from jobsight_server.storage.fetch import fetch

FRESH_S = 86_400.0
"""An idle level read longer ago than this is worthless."""

AFTER_S = 3600.0
"""After a run's life, other jobs are searched for this long: a later reading is worthless."""

NOT_KNOWN = Missing("how much memory {node} holds without a job is not known: no reading without one within a day")

# Accounting logs give the second in which a job ended; its processes may exist until the next one.
_ENDING_S = 1.0
# A node that is hardly ever idle is not searched for ever: its latest idle times are enough.
_MOST_GAPS = 100

_LAST_READING = (
    "SELECT time, memory_used_bytes FROM samples WHERE node_id = ? AND time > ? AND time < ? "
    "AND memory_used_bytes IS NOT NULL ORDER BY time DESC LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Idle:
    """An idle level in bytes, read ``age_s`` before or after the life for which it is used."""

    bytes: float
    age_s: float
    remembered: bool = False


def idle_beside(
    readings: Readings, interval: JobInterval, start_marked: bool, end_marked: bool, others: Sequence[JobInterval]
) -> Idle | None:
    """The idle level from the readings next to the life; None if none of them shows the node without a job.

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
    """The node's last known idle level before ``start``, at most a day old; ``others`` are its jobs of that day."""
    for since, until in _idle_times(start, others):
        for time, used in fetch(connection, _LAST_READING, (node_id, since, until)):
            return Idle(float(used), start - time, remembered=True)
    return None


def _idle_times(start: float, others: Sequence[JobInterval]) -> Iterator[tuple[float, float]]:
    """When no job was on the node within a day before ``start``, latest first."""
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
