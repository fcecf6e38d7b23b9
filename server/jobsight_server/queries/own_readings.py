"""A run's own readings over time: memory of its cgroup on a node, and the processors that it kept busy."""

from __future__ import annotations

import numpy as np
from sqlalchemy import Connection

from jobsight_server.forecasts.record import Record
from jobsight_server.profiler.runs import boundaries, read_marks
from jobsight_server.profiler.sampled import job_cgroup, read_job_rows
from jobsight_server.storage.sample_columns import Floats


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


def _or_null(values: Floats) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]
