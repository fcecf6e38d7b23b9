"""Finished runs: the other runs on their nodes, their boundaries, and the readings around their lives.

The part of a node's use that counts for a run is defined there (docs/use/definitions.md, Attribution).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, TypeVar

import numpy as np
from sqlalchemy import Connection

from jobsight_server.accounting.runs import Failure
from jobsight_server.ground.job_ids import job_key
from jobsight_server.profiler.exactness import Quantity, seldom
from jobsight_server.storage.engine import fetch, fetch_by_keys
from jobsight_server.storage.readings.sample_columns import UNKNOWN, Floats, Integers, SampleColumns, difference
from jobsight_server.storage.readings.samples import read_samples

Made = TypeVar("Made")

FRESH_S = 86_400.0
"""Oldest usable idle level."""

AFTER_S = 3600.0
"""Time after a run's life to search for other jobs: a later reading is unusable."""

# Assumed time from the requested walltime to an end that was never logged.
_OVERTIME_S = 3600.0
_FOREVER = 1e18
# The runs first, by their end: the nodes' own index leads to every run ever on them.
_ON_NODES = (
    'SELECT j.cluster, n.node, j.id, j.start, j."end", j.requested_walltime_s, n.processors '
    'FROM jobs j CROSS JOIN job_nodes n WHERE n.run_id = j.id AND j."end"'
)
ON_NODES = f"{_ON_NODES} > ? AND j.start < ? UNION ALL {_ON_NODES} IS NULL AND j.start < ?"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A finished run, as far as its profile depends on the accounting log. Times are the scheduler's.

    ``next_start``: the next start of the same job, if any. ``nodes``: processors held on each node. ``failure``: the
    resource that ran out, if the log has it. It was suspended for ``suspended_s`` in all. ``processors`` were
    allocated, ``asked_processors`` requested if that is another number. ``memory_incomplete``,
    ``memory_intervals`` and ``memory_with_cache``: as in ``jobs``;
    ``memory_is_virtual``: these and its request are address space. ``used``, ``gpus``,
    ``used_walltime_s`` and ``start_unknown``: as in ``jobs``. ``used_of_model``: the largest ``used`` of any run with
    such GPUs.
    """

    id: int
    cluster: str
    job_id: str
    user: str
    start: float
    end: float
    processors: int | None
    used_cpu_s: float | None
    used_memory_bytes: int | None
    failure: Failure | None = None
    recorded_at: float = 0.0
    next_start: float | None = None
    suspended_s: float | None = None
    asked_processors: int | None = None
    memory_incomplete: bool | None = None
    memory_intervals: float | None = None
    memory_with_cache: bool | None = None
    memory_is_virtual: bool | None = None
    ended_abnormally: bool | None = None
    start_unknown: bool | None = None
    exit_status: int | None = None
    used: str | None = None
    gpus: int | None = None
    used_walltime_s: float | None = None
    used_of_model: str | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """Requested processors; 0 if unknown."""
        return self.asked_processors or self.held

    @property
    def held(self) -> int:
        """Allocated processors; 0 if unknown."""
        return self.processors if self.processors and self.processors > 0 else sum(self.nodes.values())

    @property
    def memory_quantity(self) -> Quantity:
        """Which memory the log has."""
        return "virtual" if self.memory_is_virtual else "with_cache" if self.memory_with_cache else "resident"

    @property
    def run_s(self) -> float:
        """Run time without suspended time."""
        return self.end - self.start - (self.suspended_s or 0.0)

    @property
    def lacks_nodes(self) -> bool:
        """Return whether the log has the use of some of its nodes only: it counts less than half of the run time."""
        return len(self.nodes) > 1 and self.used_walltime_s is not None and 2 * self.used_walltime_s < self.run_s

    @property
    def is_incomplete(self) -> bool:
        """Return whether the log may lack some of its memory."""
        return bool(self.memory_incomplete) or self.lacks_nodes or seldom(self.memory_intervals)


class NodeRun(NamedTuple):
    """A run on a node; ``end`` is far in the future while it still runs."""

    run_id: int
    start: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other runs of one node near a run's life: those that overlap it, and all of them."""

    overlapping: tuple[NodeRun, ...]
    near: tuple[NodeRun, ...]


class NodeHistory:
    """The runs that were on one node, in order of their start."""

    def __init__(self, runs: Iterable[NodeRun]) -> None:
        self._runs = sorted(runs, key=attrgetter("start"))
        self._starts = np.array([run.start for run in self._runs])
        self._ends = np.array([run.end for run in self._runs])
        # Of consecutive runs without a pause: the first, and the latest end so far.
        self._latest = np.maximum.accumulate(self._ends)
        self._firsts = np.append(0, np.flatnonzero(self._starts[1:] > self._latest[:-1]) + 1)

    def between(self, since: float, until: float) -> list[NodeRun]:
        """Return the runs present after ``since`` and before ``until``."""
        begun = int(np.searchsorted(self._starts, until, "left"))
        return [self._runs[i] for i in np.flatnonzero(self._ends[:begun] > since)]

    def occupied(self, since: float, until: float) -> list[tuple[float, float]]:
        """Return the result of ``between`` as times (start, end), with overlapping runs joined into one."""
        begun = int(np.searchsorted(self._starts, until, "left"))
        if not begun:
            return []
        firsts = self._firsts[: np.searchsorted(self._firsts, begun, "left")]
        ends = self._latest[np.append(firsts[1:], begun) - 1]
        late = ends > since
        return list(zip(self._starts[firsts[late]].tolist(), ends[late].tolist(), strict=True))


NodeHistories = Mapping[tuple[str, str], NodeHistory]


def read_node_histories(connection: Connection, runs: Sequence[EndedRun]) -> NodeHistories:
    """Read, for each (cluster, node name) of ``runs``, every run on it from a day before the first to an hour after the
    last.
    """
    if not runs:
        return {}
    since, until = min(run.start for run in runs) - FRESH_S, max(run.end for run in runs) + AFTER_S
    found: dict[tuple[str, str], list[NodeRun]] = {(run.cluster, node): [] for run in runs for node in run.nodes}
    rows = fetch(connection, ON_NODES, (since, until, until))
    for cluster, node, run_id, start, end, walltime_s, processors in rows:
        of_node = found.get((cluster, node))
        if of_node is not None:
            if end is None:
                end = _FOREVER if walltime_s is None else start + walltime_s + _OVERTIME_S
            of_node.append(NodeRun(run_id, start, end, processors))
    return {place: NodeHistory(there) for place, there in found.items()}


def neighbours(run: EndedRun, there: NodeHistory | None, since: float, until: float) -> Neighbours:
    """Return the other runs on a node of ``run``; near are those present between ``since`` and ``until``.

    At most a day before and an hour after its life are searched.
    """
    if there is None:
        return Neighbours((), ())
    first = min(run.start, max(since, run.start - FRESH_S))
    last = max(run.end, min(until, run.end + AFTER_S))
    near = tuple(other for other in there.between(first, last) if other.run_id != run.id)
    return Neighbours(tuple(o for o in near if o.start < run.end and o.end > run.start), near)


def attribution(processors: int, overlapping: Sequence[NodeRun]) -> str:
    """Return how a node's use can be attributed to a run that holds ``processors`` of it."""
    if not overlapping:
        return "exclusive"
    if processors <= 0 or any(other.processors <= 0 for other in overlapping):
        return "unknown"
    return "apportioned"


# Readings to fetch before and after the life: a metric may be missing in the nearest ones.
_AROUND = 5
# A hook's reading further from the scheduler's own time than this belongs to another run.
_MARK_WITHIN_S = 300.0
# Lives on one node at most this far apart are read together: a query costs as much as some hundred readings.
_TOGETHER_S = 60.0

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
    return rows_of_jobs(connection, _MARKS, asked, lambda event, time: (event, time))


def rows_of_jobs(
    connection: Connection, query: str, asked: Iterable[tuple[int, str]], make: Callable[..., Made]
) -> dict[tuple[int, str], list[Made]]:
    """Return what ``make`` makes of the columns after node id and job id, by these as asked."""
    keys = {(node_id, job_id): (node_id, job_key(job_id)) for node_id, job_id in asked}
    found: dict[tuple[int, str], list[Made]] = {}
    for node_id, job_id, *row in fetch_by_keys(connection, query, list(dict.fromkeys(keys.values()))):
        found.setdefault((node_id, job_id), []).append(make(*row))
    return {place: found[key] for place, key in keys.items() if key in found}


def boundaries(marks: Sequence[MarkTime], start: float, end: float, next_start: float | None = None) -> Boundaries:
    """Return the boundaries from ``marks`` of the job; from the scheduler's times if a mark is missing.

    If only one boundary is marked, its distance from the scheduler's time applies to the other too: it is the
    difference between the clocks. ``next_start``: the next start of the same job, if any.
    """
    begun = _nearest([time for event, time in marks if event == "start"], start)
    after = start if begun is None else begun
    latest = _FOREVER if next_start is None else next_start
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


_Window = tuple[float, float, SampleColumns]
"""Start and end of joined lives, and the readings around them."""


class Windows:
    """The readings of some nodes over the lives of some runs: read together, returned per run."""

    def __init__(self, found: Mapping[int, Sequence[_Window]]) -> None:
        self._found = found

    def around(self, node_id: int, start: float, end: float) -> Readings:
        """Return the node's readings from some before ``start`` to some after ``end``, a life passed to
        ``read_windows``.
        """
        columns = next(columns for first, last, columns in self._found[node_id] if first <= start and end <= last)
        time = columns.time
        first = int(np.searchsorted(time, start, "left")) - _AROUND
        last = int(np.searchsorted(time, end, "right")) + _AROUND
        return to_readings(columns[max(0, first) : last])


def read_windows(connection: Connection, asked: Iterable[tuple[int, float, float]]) -> Windows:
    """Return the readings of nodes (id) around lives ``(node id, start, end)``; lives that overlap are read once."""
    lives: dict[int, list[tuple[float, float]]] = {}
    for node_id, start, end in asked:
        lives.setdefault(node_id, []).append((start, end))
    return Windows(
        {
            node_id: [
                (start, end, read_samples(connection, node_id, start, end, _AROUND)) for start, end in _joined(of_node)
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
