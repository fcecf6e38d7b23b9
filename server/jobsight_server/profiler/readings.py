"""One node's readings around the life of a job, as columns, with the boundaries that its hooks marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from jobsight_server.storage.engine import fetch_by_keys
from jobsight_server.storage.job_ids import job_key
from jobsight_server.storage.sample_columns import UNKNOWN, Floats, Integers, SampleColumns, difference
from jobsight_server.storage.samples import read_samples

# Readings to fetch before and after the life: a metric may be missing in the nearest ones.
_AROUND = 5
# A hook's reading further from the scheduler's own time than this belongs to another run.
_MARK_WITHIN_S = 300.0
# Lives on one node at most this far apart are read together: a query costs as much as some hundred readings.
_TOGETHER_S = 60.0

_EVER = 1e18
# ``asked`` first, joined in this order: SQLite would scan the whole table for (..) IN (VALUES ..).
_MARKS = (
    "WITH asked(node_id, job_id) AS (VALUES {asked}) "
    "SELECT m.node_id, m.job_id, m.event, m.time FROM asked CROSS JOIN marks m "
    "WHERE m.node_id = asked.node_id AND m.job_id = asked.job_id ORDER BY m.time"
)

MarkTime = tuple[str, float]
"""Event and time."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings as columns of equal length, rising in time; NaN where a reading lacks the metric.

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

    ``offset_s`` is the lead of the node's clock over the scheduler's, by the marks.
    """

    start: float
    end: float
    start_marked: bool = False
    end_marked: bool = False
    offset_s: float = 0.0


def read_marks(connection: Connection, asked: Iterable[tuple[int, str]]) -> dict[tuple[int, str], list[MarkTime]]:
    """Return the marks of jobs on nodes, by (node id, job id), in order of time."""
    keys = {(node_id, job_id): (node_id, job_key(job_id)) for node_id, job_id in asked}
    found: dict[tuple[int, str], list[MarkTime]] = {}
    for node_id, job_id, event, time in fetch_by_keys(connection, _MARKS, list(dict.fromkeys(keys.values()))):
        found.setdefault((node_id, job_id), []).append((event, time))
    return {place: found[key] for place, key in keys.items() if key in found}


def boundaries(marks: Sequence[MarkTime], start: float, end: float, next_start: float | None = None) -> Boundaries:
    """Return the boundaries from ``marks`` of the job; from the scheduler's times if a mark is missing.

    If only one boundary is marked, its distance from the scheduler's time applies to the other too: it is the
    difference between the clocks. ``next_start``: the next start of the same job, if any.
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
class _Window:
    start: float
    end: float
    columns: SampleColumns


class Windows:
    """The readings of some nodes over the lives of some runs: read together, returned per run."""

    def __init__(self, found: Mapping[int, Sequence[_Window]]) -> None:
        self._found = found

    def around(self, node_id: int, start: float, end: float) -> Readings:
        """Return the node's readings from some before ``start`` to some after ``end``, a life passed to
        ``read_windows``.
        """
        window = next(window for window in self._found[node_id] if window.start <= start and end <= window.end)
        time = window.columns.time
        first = int(np.searchsorted(time, start, "left")) - _AROUND
        last = int(np.searchsorted(time, end, "right")) + _AROUND
        return to_readings(window.columns[max(0, first) : last])


def read_windows(connection: Connection, asked: Iterable[tuple[int, float, float]]) -> Windows:
    """Return the readings of nodes (id) around lives ``(node id, start, end)``; lives that overlap are read once."""
    lives: dict[int, list[tuple[float, float]]] = {}
    for node_id, start, end in asked:
        lives.setdefault(node_id, []).append((start, end))
    return Windows(
        {
            node_id: [
                _Window(start, end, read_samples(connection, node_id, start, end, _AROUND))
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


def to_readings(columns: SampleColumns) -> Readings:
    """Return ``columns`` with totals counted from the first reading that has them."""
    infiniband = _moved(columns.ib_in_bytes), _moved(columns.ib_out_bytes)
    return Readings(
        columns.time,
        _moved(columns.net_in_bytes),
        _moved(columns.net_out_bytes),
        columns.cpu_busy_s - next(iter(columns.cpu_busy_s[np.isfinite(columns.cpu_busy_s)]), 0.0),
        columns.memory_used_bytes,
        columns.gap_s,
        infiniband if np.isfinite(infiniband[0]).any() else None,
    )


def _moved(totals: Integers) -> Floats:
    known = totals != UNKNOWN
    if not known.any():
        return np.full(len(totals), np.nan)
    # A total may have more digits than a double, a difference does not.
    return np.where(known, difference(totals, totals[known.argmax()]), np.nan)


def _nearest(times: Sequence[float], logged: float) -> float | None:
    found = min(times, key=lambda time: abs(time - logged), default=None)
    return found if found is not None and abs(found - logged) <= _MARK_WITHIN_S else None
