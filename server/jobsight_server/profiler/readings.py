"""One node's readings around the life of a job, as columns, and where its hooks marked the boundaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jobsight_server.job_ids import job_key
from jobsight_server.storage.engine import fetch, fetch_by_keys
from jobsight_server.storage.samples import MODULUS, SETTLED

Floats = NDArray[np.float64]

# Readings before and after the life that are read too: a metric may be missing in the nearest ones.
_AROUND = 5
# A hook's reading further from the scheduler's own time than this belongs to another run.
_MARK_WITHIN_S = 300.0
# Lives on one node this near to each other are read together: a query costs as much as some hundred readings.
_TOGETHER_S = 60.0

_EVER = 1e18
_SAMPLES = (
    "SELECT time, net_in_bytes, net_out_bytes, cpu_busy_s, memory_used_bytes, gap_s, ib_in_bytes, ib_out_bytes "
    f"FROM {SETTLED} WHERE node_id = ? "
    "AND time >= coalesce((SELECT s.time FROM samples s WHERE s.node_id = ? AND s.time < ? "
    f"ORDER BY s.time DESC LIMIT 1 OFFSET {_AROUND - 1}), ?) "
    "AND time <= coalesce((SELECT s.time FROM samples s WHERE s.node_id = ? AND s.time > ? "
    f"ORDER BY s.time LIMIT 1 OFFSET {_AROUND - 1}), ?) ORDER BY time"
)
# Asked first and joined in this order: SQLite would scan the whole table for (..) IN (VALUES ..).
_MARKS = (
    "WITH asked(node_id, job_id) AS (VALUES {asked}) "
    "SELECT m.node_id, m.job_id, m.event, m.time FROM asked CROSS JOIN marks m "
    "WHERE m.node_id = asked.node_id AND m.job_id = asked.job_id ORDER BY m.time"
)

MarkTime = tuple[str, float]
"""Event and time."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Columns of equal length, rising in time; NaN where a reading lacks the metric.

    Times in seconds of the node's clock; the cumulative columns count from the first reading that has them.
    ``infiniband`` is the part of the bytes in and out that InfiniBand and Omni-Path moved; None without such ports.
    """

    time: Floats
    net_in_bytes: Floats
    net_out_bytes: Floats
    cpu_busy_s: Floats
    memory_used_bytes: Floats
    gap_s: Floats
    infiniband: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, slots=True)
class Boundaries:
    """A run's life in the node's clock. ``marked``: whether a hook's reading was taken at that instant.

    ``offset_s`` is how far the node's clock runs ahead of the scheduler's, according to the marks.
    """

    start: float
    end: float
    start_marked: bool = False
    end_marked: bool = False
    offset_s: float = 0.0


def read_marks(connection: Connection, asked: Iterable[tuple[int, str]]) -> dict[tuple[int, str], list[MarkTime]]:
    """The marks of jobs on nodes, by (node id, job id), in order of time."""
    keys = {(node_id, job_id): (node_id, job_key(job_id)) for node_id, job_id in asked}
    found: dict[tuple[int, str], list[MarkTime]] = {}
    for node_id, job_id, event, time in fetch_by_keys(connection, _MARKS, list(dict.fromkeys(keys.values()))):
        found.setdefault((node_id, job_id), []).append((event, time))
    return {place: found[key] for place, key in keys.items() if key in found}


def boundaries(marks: Sequence[MarkTime], start: float, end: float, next_start: float | None = None) -> Boundaries:
    """The boundaries from ``marks`` of the job; from the scheduler's times if a mark is missing.

    If only one boundary is marked, its distance from the scheduler's time is used for the other one as well: it is the
    difference between the two clocks. ``next_start``: when the same job started again, if it did.
    """
    begun = _nearest([time for event, time in marks if event == "start"], start)
    after = start if begun is None else begun
    latest = _EVER if next_start is None else next_start
    ended = _nearest([time for event, time in marks if event == "end" and after < time < latest], end)
    offsets = [mark - logged for mark, logged in ((begun, start), (ended, end)) if mark is not None]
    offset = sum(offsets) / len(offsets) if offsets else 0.0
    return Boundaries(
        start=begun if begun is not None else start + offset,
        end=ended if ended is not None else end + offset,
        start_marked=begun is not None,
        end_marked=ended is not None,
        offset_s=offset,
    )


@dataclass(frozen=True, slots=True)
class ReadingColumns:
    """Readings as stored. A counter may have more digits than a double, so these stay whole numbers."""

    time: Floats
    net_in_bytes: NDArray[Any]
    net_out_bytes: NDArray[Any]
    cpu_busy_s: NDArray[Any]
    memory_used_bytes: Floats
    gap_s: Floats
    infiniband: tuple[NDArray[Any], NDArray[Any]] | None = None

    def cut(self, first: int, last: int) -> Readings:
        """The readings at ``first`` up to before ``last``."""
        return Readings(
            self.time[first:last],
            _moved(self.net_in_bytes[first:last]),
            _moved(self.net_out_bytes[first:last]),
            _counted(self.cpu_busy_s[first:last]),
            self.memory_used_bytes[first:last],
            self.gap_s[first:last],
            self._infiniband(first, last),
        )

    def _infiniband(self, first: int, last: int) -> tuple[Floats, Floats] | None:
        if self.infiniband is None:
            return None
        received, sent = (_moved(column[first:last]) for column in self.infiniband)
        return (received, sent) if np.isfinite(received).any() else None


@dataclass(frozen=True, slots=True)
class _Window:
    start: float
    end: float
    columns: ReadingColumns


class Windows:
    """The readings of some nodes over the lives of some runs: read together, returned per run."""

    def __init__(self, found: Mapping[int, Sequence[_Window]]) -> None:
        self._found = found

    def around(self, node_id: int, start: float, end: float) -> Readings:
        """The node's readings from some before ``start`` until some after ``end``, which had been asked for."""
        window = next(window for window in self._found[node_id] if window.start <= start and end <= window.end)
        time = window.columns.time
        first = int(np.searchsorted(time, start, "left")) - _AROUND
        last = int(np.searchsorted(time, end, "right")) + _AROUND
        return window.columns.cut(max(0, first), last)


def read_windows(connection: Connection, asked: Iterable[tuple[int, float, float]]) -> Windows:
    """The readings of nodes (id) around lives ``(node id, start, end)``; lives that overlap are read once."""
    lives: dict[int, list[tuple[float, float]]] = {}
    for node_id, start, end in asked:
        lives.setdefault(node_id, []).append((start, end))
    return Windows(
        {
            node_id: [
                _Window(start, end, columns_of(_samples(connection, node_id, start, end)))
                for start, end in _joined(of_node)
            ]
            for node_id, of_node in lives.items()
        }
    )


def _joined(lives: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(lives):
        if found and start <= found[-1][1] + _TOGETHER_S:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _samples(connection: Connection, node_id: int, start: float, end: float) -> list[Any]:
    return fetch(connection, _SAMPLES, (node_id, node_id, start, -_EVER, node_id, end, _EVER))


def columns_of(rows: Sequence[Sequence[Any]]) -> ReadingColumns:
    """Rows ``(time, net_in, net_out, cpu_busy, memory_used, gap)`` as columns; ``ib_in, ib_out`` may follow."""
    if not rows:
        nothing = np.empty(0)
        return ReadingColumns(nothing, nothing, nothing, nothing, nothing, nothing)
    time, net_in, net_out, cpu, memory, gap, *infiniband = zip(*rows, strict=True)
    received, sent = infiniband or ((), ())
    return ReadingColumns(
        np.array(time, dtype=np.float64),
        _stored(net_in),
        _stored(net_out),
        _stored(cpu),
        np.array(memory, dtype=np.float64),
        np.array(gap, dtype=np.float64),
        None if received.count(None) == len(received) else (_stored(received), _stored(sent)),
    )


def _stored(column: Sequence[Any]) -> NDArray[Any]:
    """Numbers where no reading lacks the metric, else objects, None among them."""
    return np.array(column, dtype=object) if None in column else np.array(column)


def _moved(column: NDArray[Any]) -> Floats:
    """Bytes since the first reading that has them: stored totals count modulo 2**62."""
    first = _first(column)
    half = MODULUS // 2
    if column.dtype != object:
        moved: Floats = ((column - first + half) % MODULUS - half).astype(np.float64)
        return moved
    return np.array(
        [None if value is None else (value - first + half) % MODULUS - half for value in column], dtype=np.float64
    )


def _counted(column: NDArray[Any]) -> Floats:
    """The same for seconds."""
    first = _first(column)
    if column.dtype != object:
        counted: Floats = (column - first).astype(np.float64)
        return counted
    return np.array([None if value is None else value - first for value in column], dtype=np.float64)


def _first(column: NDArray[Any]) -> Any:
    """The first value, to be subtracted: a counter may have more digits than a double, a difference does not."""
    return next((value for value in column if value is not None), 0)


def _nearest(times: Sequence[float], logged: float) -> float | None:
    found = min(times, key=lambda time: abs(time - logged), default=None)
    return found if found is not None and abs(found - logged) <= _MARK_WITHIN_S else None
