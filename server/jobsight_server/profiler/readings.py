"""One node's readings around the life of a job, as columns, and where its hooks marked the boundaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_server.storage.totals import SETTLED, risen

Floats = NDArray[np.float64]

# Readings before and after the life that are looked at too: a metric may be missing from the nearest ones.
_AROUND = 5
# A hook's reading further from the scheduler's own time than this belongs to another run.
_MARK_WITHIN_S = 300.0

_EVER = 1e18
# In the driver's own words: these two are asked for each node of each run.
_SAMPLES = (
    f"SELECT time, net_in_bytes, net_out_bytes, cpu_busy_s, memory_used_bytes, gap_s FROM {SETTLED} WHERE node_id = ? "
    "AND time >= coalesce((SELECT s.time FROM samples s WHERE s.node_id = ? AND s.time < ? "
    f"ORDER BY s.time DESC LIMIT 1 OFFSET {_AROUND - 1}), ?) "
    "AND time <= coalesce((SELECT s.time FROM samples s WHERE s.node_id = ? AND s.time > ? "
    f"ORDER BY s.time LIMIT 1 OFFSET {_AROUND - 1}), ?) ORDER BY time"
)
_MARKS = "SELECT event, time FROM marks WHERE node_id = ? AND job_id = ? ORDER BY time"


@dataclass(frozen=True, slots=True)
class Readings:
    """Columns of equal length, rising in time; NaN where a reading lacks the metric.

    Times in seconds of the node's clock; the cumulative columns count from the first reading that has them.
    """

    time: Floats
    net_in_bytes: Floats
    net_out_bytes: Floats
    cpu_busy_s: Floats
    memory_used_bytes: Floats
    gap_s: Floats


@dataclass(frozen=True, slots=True)
class Boundaries:
    """A run's life in the node's clock. ``marked``: whether a hook's reading was taken at that instant.

    ``offset_s`` is how far the node's clock runs ahead of the scheduler's, as far as the marks tell.
    """

    start: float
    end: float
    start_marked: bool = False
    end_marked: bool = False
    offset_s: float = 0.0


def read_boundaries(
    connection: Connection, node_id: int, job_id: str, start: float, end: float, next_start: float | None
) -> Boundaries:
    """The boundaries of the run on one node; ``next_start``: when the same job started again, if it did."""
    return boundaries(_fetch(connection, _MARKS, (node_id, job_id)), start, end, next_start)


def boundaries(marks: Sequence[Sequence[Any]], start: float, end: float, next_start: float | None = None) -> Boundaries:
    """The boundaries by ``marks`` (event, time) of the job; by the scheduler's times where a mark is missing.

    Where only one boundary is marked, its distance from the scheduler's time is taken for the other one's as well:
    it is how far the two clocks are apart.
    """
    begun = _nearest([time for event, time in marks if event == "start"], start)
    after = start if begun is None else begun
    latest = _EVER if next_start is None else next_start
    ended = _nearest([time for event, time in marks if event == "end" and after < time < latest], end)
    offsets = [mark - told for mark, told in ((begun, start), (ended, end)) if mark is not None]
    offset = sum(offsets) / len(offsets) if offsets else 0.0
    return Boundaries(
        start=begun if begun is not None else start + offset,
        end=ended if ended is not None else end + offset,
        start_marked=begun is not None,
        end_marked=ended is not None,
        offset_s=offset,
    )


def read_readings(connection: Connection, node_id: int, start: float, end: float) -> Readings:
    """The node's readings from some before ``start`` until some after ``end``."""
    return readings_of(_fetch(connection, _SAMPLES, (node_id, node_id, start, -_EVER, node_id, end, _EVER)))


def _fetch(connection: Connection, query: str, parameters: tuple[Any, ...]) -> list[Any]:
    if connection.dialect.name != "sqlite":
        query = query.replace("?", "%s")
    # Past SQLAlchemy's rows, which cost as much again as the reading does.
    cursor = connection.exec_driver_sql(query, parameters).cursor
    assert cursor is not None
    rows: list[Any] = list(cursor.fetchall())
    return rows


def readings_of(rows: Sequence[Sequence[Any]]) -> Readings:
    """Rows ``(time, net_in, net_out, cpu_busy, memory_used, gap)`` as columns."""
    if not rows:
        return Readings(*(np.empty(0) for _ in range(6)))
    time, net_in, net_out, cpu, memory, gap = zip(*rows, strict=True)
    return Readings(
        np.array(time, dtype=np.float64),
        _counted(net_in, risen),
        _counted(net_out, risen),
        _counted(cpu, lambda first, value: value - first),
        np.array(memory, dtype=np.float64),
        np.array(gap, dtype=np.float64),
    )


def _counted(column: Sequence[Any], difference: Callable[[Any, Any], Any]) -> Floats:
    """The column less its first value: a counter may hold more digits than a double, a difference does not."""
    first = next((value for value in column if value is not None), None)
    if first is None:
        return np.full(len(column), np.nan)
    return np.array([None if value is None else difference(first, value) for value in column], dtype=np.float64)


def _nearest(times: Sequence[float], told: float) -> float | None:
    found = min(times, key=lambda time: abs(time - told), default=None)
    return found if found is not None and abs(found - told) <= _MARK_WITHIN_S else None
