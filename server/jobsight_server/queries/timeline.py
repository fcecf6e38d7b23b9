"""One node over time, thinned to a bounded number of points without losing traffic."""

from __future__ import annotations

from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_server.record import Record
from jobsight_server.storage.sample_columns import MODULUS, UNKNOWN, Floats
from jobsight_server.storage.samples import read_samples

POINTS = 500


class Timeline(Record):
    """One node over [since, until] as columns of equal length; null means unknown.

    ``time``: end of each interval; ``in_bps``, ``out_bps``: bits per second on average over it;
    ``memory_used_bytes``: mean; ``cpu_utilisation``: busy share of all processors, 0..1.
    """

    since: float
    until: float
    time: list[float]
    in_bps: list[float | None]
    out_bps: list[float | None]
    memory_used_bytes: list[float | None]
    cpu_utilisation: list[float | None]


def timeline(
    connection: Connection, node_id: int, since: float, until: float, cpus: int, points: int = POINTS
) -> Timeline:
    """At most ``points`` values over [since, until]."""
    readings = read_samples(connection, node_id, since, until, around=1)
    readings = readings[readings.time <= until]
    readings = readings[max(0, int(np.searchsorted(readings.time, since)) - 1) :]
    if not len(readings):
        return Timeline(since, until, [], [], [], [], [])
    # What lies before ``since`` is a bucket of its own.
    bucket = np.floor((readings.time - since) / max((until - since) / points, 1e-3))
    ends = np.flatnonzero(np.append(np.diff(np.maximum(bucket, -1.0)) > 0, True))
    gap_s = readings.gap_s[ends]
    in_bps = _rates(readings.time, readings.net_in_bytes, ends, gap_s, 8.0)
    out_bps = _rates(readings.time, readings.net_out_bytes, ends, gap_s, 8.0)
    busy = _rates(readings.time, readings.cpu_busy_s, ends, gap_s, 1.0 / max(cpus, 1))
    memory = _means(readings.memory_used_bytes, ends)[1:]
    return Timeline(since, until, readings.time[ends[1:]].tolist(), *map(_or_null, (in_bps, out_bps, memory, busy)))


def _rates(time: Floats, totals: NDArray[Any], ends: NDArray[np.intp], gap_s: Floats, factor: float) -> Floats:
    """What the totals rose by in a second, times ``factor``: between the last readings of each bucket that have them.

    NaN where one of two buckets has none, or where nothing is known of all the time between.
    """
    known = ~np.isnan(totals) if totals.dtype == np.float64 else totals != UNKNOWN
    last = np.maximum.accumulate(np.where(known, np.arange(len(totals)), -1))[ends]
    is_in_bucket = last > np.append(-1, ends[:-1])
    risen = np.diff(totals[last])
    if totals.dtype != np.float64:
        risen = (risen + MODULUS // 2) % MODULUS - MODULUS // 2
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
