"""Series of a node over time, and of a run's own readings there: each at most as many points as asked for."""

from __future__ import annotations

from math import ceil, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_server.ground.answers import Record
from jobsight_server.profiler.runs import boundaries, read_marks
from jobsight_server.profiler.sampled import job_cgroup, read_job_rows
from jobsight_server.storage.readings.sample_columns import UNKNOWN, Floats, difference
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.readings.summarise import (
    LENGTH_S,
    Period,
    ValueRange,
    merged,
    oldest_reading,
    read_summaries,
)

POINTS = 500

_HOURS_PER_POINT = 4  # at most; 2,000 hours take some 20 ms


class Timeline(Record):
    """One node over [since, until] as columns of equal length; null means unknown.

    ``time``: end of each interval; ``in_bps``, ``out_bps``: bits per second on average over it;
    ``memory_used_bytes``: mean; ``cpu_utilisation``: busy share of all processors, 0..1. Where readings are deleted,
    intervals are whole hours or days, in UTC.
    """

    since: float
    until: float
    time: list[float]
    in_bps: list[float | None]
    out_bps: list[float | None]
    memory_used_bytes: list[float | None]
    cpu_utilisation: list[float | None]


_COLUMNS = ("time", "in_bps", "out_bps", "memory_used_bytes", "cpu_utilisation")


def timeline(
    connection: Connection, node_id: int, since: float, until: float, cpus: int, points: int = POINTS
) -> Timeline:
    """Return at most ``points`` values over [since, until], and one more where summaries and readings meet."""
    oldest = oldest_reading(connection, node_id)
    end = until if oldest is None else min(oldest, until)
    if end <= since:
        return _of_readings(connection, node_id, since, until, cpus, points)
    share = ceil(points * (end - since) / (until - since))
    old = _of_summaries(connection, node_id, since, end, cpus, share, has_readings=end == oldest)
    if end == until:
        return old
    new = _of_readings(connection, node_id, end, until, cpus, max(1, points - share))
    return Timeline(since, until, *(getattr(old, name) + getattr(new, name) for name in _COLUMNS))


def _of_summaries(
    connection: Connection, node_id: int, since: float, until: float, cpus: int, points: int, *, has_readings: bool
) -> Timeline:
    """Return hours or days within [since, until]. One with readings left (``has_readings``) ends at ``until``."""
    # Single hours unless they are many or, after a year, gone; a short span may have no whole day.
    few = (until - since) / LENGTH_S["hour"] <= _HOURS_PER_POINT * points
    choices: tuple[Period, ...] = ("hour", "day") if few else ("day", "hour")
    for period in choices:
        length_s = LENGTH_S[period]
        last = until if has_readings else until - length_s
        found = read_summaries(connection, node_id, period, since, last)
        if found:
            break
    length_s *= max(1, ceil((until - since) / length_s / points))
    found = merged(found, length_s)
    return Timeline(
        since,
        until,
        [min(summary.first_time + length_s, until) for summary in found],
        [_mean(summary.in_bps) for summary in found],
        [_mean(summary.out_bps) for summary in found],
        [_mean(summary.memory_used_bytes) for summary in found],
        [_mean(summary.cpus_busy, 1.0 / max(cpus, 1)) for summary in found],
    )


def _mean(spread: ValueRange | None, factor: float = 1.0) -> float | None:
    return None if spread is None else spread.mean * factor


def _of_readings(connection: Connection, node_id: int, since: float, until: float, cpus: int, points: int) -> Timeline:
    readings = read_samples(connection, node_id, since, until, around=1)
    readings = readings[readings.time <= until]
    readings = readings[max(0, int(np.searchsorted(readings.time, since)) - 1) :]
    if not len(readings):
        return Timeline(since, until, [], [], [], [], [])
    # Readings before ``since`` are a bucket of their own.
    bucket = np.floor((readings.time - since) / max((until - since) / points, 1e-3))
    ends = np.flatnonzero(np.append(np.diff(np.maximum(bucket, -1.0)) > 0, True))
    gap_s = readings.gap_s[ends]
    in_bps = _rates(readings.time, readings.net_in_bytes, ends, gap_s, 8.0)
    out_bps = _rates(readings.time, readings.net_out_bytes, ends, gap_s, 8.0)
    busy = _rates(readings.time, readings.cpu_busy_s, ends, gap_s, 1.0 / max(cpus, 1))
    memory = _means(readings.memory_used_bytes, ends)[1:]
    return Timeline(since, until, readings.time[ends[1:]].tolist(), *map(_or_null, (in_bps, out_bps, memory, busy)))


def _rates(time: Floats, totals: NDArray[Any], ends: NDArray[np.intp], gap_s: Floats, factor: float) -> Floats:
    """Return the totals' rise per second, times ``factor``, between the last readings of each bucket that have them.

    NaN where one of two buckets has none, or where all the time between is unknown.
    """
    known = ~np.isnan(totals) if totals.dtype == np.float64 else totals != UNKNOWN
    last = np.maximum.accumulate(np.where(known, np.arange(len(totals)), -1))[ends]
    is_in_bucket = last > np.append(-1, ends[:-1])
    risen = difference(totals[last[1:]], totals[last[:-1]])
    known_s = np.diff(time[last]) - np.diff(gap_s)
    has_rate = is_in_bucket[1:] & is_in_bucket[:-1] & (known_s > 0)
    return np.where(has_rate, np.maximum(risen, 0) * factor / np.where(has_rate, known_s, 1.0), np.nan)


def _means(values: Floats, ends: NDArray[np.intp]) -> Floats:
    begins = np.append(0, ends[:-1] + 1)
    known = np.isfinite(values)
    sums, counts = np.add.reduceat(np.where(known, values, 0.0), begins), np.add.reduceat(known.astype(float), begins)
    return np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)


def _or_null(values: Floats) -> list[float | None]:
    return [None if isnan(value) else value for value in values.tolist()]


class OwnReadings(Record):
    """The job's own readings on one node as columns of equal length; null means unknown.

    ``time``: end of each interval; ``memory_bytes``: its cgroup's peak in it, anonymous and shared memory;
    ``busy_processors``: processors it kept busy on average, null for the first.
    """

    time: list[float]
    memory_bytes: list[float | None]
    busy_processors: list[float | None]


def own_readings(
    connection: Connection,
    node_id: int,
    job_id: str,
    since: float,
    until: float,
    next_start: float | None,
    points: int,
) -> OwnReadings | None:
    """Return at most ``points`` values of the run over [since, until]; None if its cgroup was not read on the node.

    ``next_start``: when the same job started again, if it did: later readings belong to that run.
    """
    key = (node_id, job_id)
    rows = read_job_rows(connection, [key]).get(key)
    if not rows:
        return None
    at = boundaries(read_marks(connection, [key]).get(key, ()), since, until, next_start)
    group = job_cgroup(rows, at, next_start)
    if group is None:
        return None
    time = group.time - at.offset_s
    bucket = np.floor((time - since) / max((until - since) / points, 1e-3)).clip(0, points - 1)
    ends = np.flatnonzero(np.append(np.diff(bucket) > 0, True))
    begins = np.append(0, ends[:-1] + 1)
    memory = np.maximum.reduceat(np.where(np.isfinite(group.used), group.used, -1.0), begins)
    return OwnReadings(
        time[ends].tolist(),
        _or_null(np.where(memory < 0.0, np.nan, memory)),
        _or_null(_busy(time[ends], group.cpu_s[ends])),
    )


def _busy(time: Floats, cpu_s: Floats) -> Floats:
    """Return processors busy since the reading before; NaN for the first, or where one of the two is unknown."""
    elapsed = np.diff(time)
    rates = np.where(elapsed > 0, np.diff(cpu_s) / np.where(elapsed > 0, elapsed, 1.0), np.nan)
    return np.append(np.nan, rates)
