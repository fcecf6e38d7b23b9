"""Evidence of one node of a run: readings of the node, and of the job's own cgroup; sums over its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from sqlalchemy import Connection, text

from jobsight_server.ground.job_ids import job_key
from jobsight_server.measurements.prometheus import MetricSeries
from jobsight_server.profiler.exactness import (
    NO_PROCESSORS,
    SHORT_S,
    TOO_SHORT,
    Measurement,
    Missing,
    why_low,
    without,
)
from jobsight_server.profiler.memory import (
    NOT_KNOWN,
    UNKNOWN,
    UNKNOWN_TOGETHER,
    Idle,
    NodeMemory,
    inside,
    interval_of,
    node_memory,
    together,
)
from jobsight_server.profiler.runs import Boundaries, Neighbours, NodeRun, Readings, attribution, rows_of_jobs
from jobsight_server.profiler.usage import MOST_UNKNOWN, JobInterval, Rates, Speeds
from jobsight_server.settings.measurements import Quantity
from jobsight_server.storage.job_columns import load_columns
from jobsight_server.storage.readings.sample_columns import Floats

_Use = TypeVar("_Use")

# Sources of memory values, by the idle levels known.
SAMPLES, IDLE_REMEMBERED, IDLE_UNKNOWN = "samples", "samples-idle-remembered", "samples-idle-unknown"

NO_SAMPLES = Missing("no samples of {node}")
NO_READINGS = Missing("the site's monitoring has no readings of {node}")
NO_NODES = Missing("the accounting log names no node for it")
NO_PLACES = Missing("the accounting log does not say how many of its processors were on {node}")
NO_TIME = Missing("it ran for less than a second")
NO_SHARE = Missing("other jobs were on {node} and their share is unknown")


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """The evidence of one node of a run. ``readings`` is None if there are none, for the reason ``without``.

    ``idle`` is its memory without any job; None if unknown. ``group`` has the readings of the run's own cgroup,
    ``traffic`` the bytes that its own processes sent and received, if known; ``speeds`` are those of the node's
    networks; ``cpus`` and ``memory_bytes`` its size; ``too_low`` says by metric why its readings may lack some of it.
    ``gpus`` has the series of its GPUs, None if agents read none.
    """

    node: str
    processors: int
    readings: Readings | None
    boundaries: Boundaries
    neighbours: Neighbours
    idle: Idle | None = None
    group: JobCgroup | None = None
    speeds: Speeds = field(default_factory=dict)
    cpus: int | None = None
    memory_bytes: int | None = None
    traffic: Readings | None = None
    without: Missing = NO_SAMPLES
    too_low: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[Quantity, Sequence[MetricSeries]] | None = None


def sampled_memory(nodes: Sequence[NodeEvidence], how: str, processors: int, length_s: float) -> Measurement:
    """Return memory per processor: the largest sum over the nodes at one reading, less their idle levels."""
    held = _of_each(nodes, _memory_of, processors, length_s)
    if isinstance(held, Missing):
        return replace(without(held, how), source=IDLE_UNKNOWN if held.kind == NOT_KNOWN.kind else None)
    if length_s <= SHORT_S:
        return without(TOO_SHORT, how)
    use = together(held)
    if not use.is_whole:
        return without(UNKNOWN_TOGETHER, how)
    idle = [node.idle for node in nodes if node.idle is not None]
    # Its share of shared nodes grows as others end.
    growing = sum(growth(node.since, node.used) for node in held) / use.peak if how == "exclusive" and use.peak else 0.0
    entry = Measurement(
        use.peak / processors,
        use.peak / processors,
        source=IDLE_REMEMBERED if any(one.remembered for one in idle) else SAMPLES,
        attribution=how,
        mean=use.mean / processors,
        idle_age_s=max(one.age_s for one in idle),
        quantity="node",
    )
    return entry.at_least(why_low(growing=growing))


def sampled_rate(
    nodes: Sequence[NodeEvidence],
    rate: Callable[[Readings, JobInterval, Sequence[JobInterval]], Rates | Missing],
    how: str,
    processors: int,
    length_s: float,
    unit: float = 1.0,
) -> Measurement:
    """Return the sum over the nodes of the highest ``rate`` times ``unit``, per processor.

    The peak is the sum of the nodes' own peaks, at least their joint peak.
    """
    found = _of_each(nodes, lambda node, readings: rate(readings, _interval(node), _others(node)), processors, length_s)
    if isinstance(found, Missing):
        return without(found, how)
    peaks = [float(one.peak.max()) * unit for one in found if one.peak is not None]
    peak = sum(peaks) / processors if len(peaks) == len(found) else None
    return Measurement(sum(float(one.mean.max()) * unit for one in found) / processors, peak, SAMPLES, how)


def _of_each(
    nodes: Sequence[NodeEvidence],
    use: Callable[[NodeEvidence, Readings], _Use | Missing],
    processors: int,
    length_s: float,
) -> list[_Use] | Missing:
    """Return the ``use`` of each node by its readings; one node without a value leaves the run without one."""
    if length_s <= 0 or processors <= 0:
        return NO_TIME if length_s <= 0 else NO_PROCESSORS
    found = []
    for node in nodes:
        one = _of(node, use)
        if isinstance(one, Missing):
            return Missing(one.kind, node.node)
        found.append(one)
    return found or NO_NODES


def _of(node: NodeEvidence, use: Callable[[NodeEvidence, Readings], _Use | Missing]) -> _Use | Missing:
    if node.readings is None:
        return node.without
    if node.processors <= 0:
        return NO_PLACES
    if attribution(node.processors, node.neighbours.overlapping) == "unknown":
        return NO_SHARE
    return use(node, node.readings)


def _memory_of(node: NodeEvidence, readings: Readings) -> NodeMemory | Missing:
    interval = _interval(node)
    # A life with hardly any readings has no value, whatever the idle level.
    if node.idle is None and np.count_nonzero(inside(readings, interval)) >= 2:
        return NOT_KNOWN
    found = node_memory(readings, interval, _others(node), 0.0 if node.idle is None else node.idle.bytes)
    return found if isinstance(found, Missing) or found.is_whole else UNKNOWN


def _interval(node: NodeEvidence) -> JobInterval:
    alone = not node.neighbours.overlapping
    return JobInterval(node.boundaries.start, node.boundaries.end, 1 if alone else node.processors)


def _others(node: NodeEvidence) -> list[JobInterval]:
    return [shifted(other, node.boundaries.offset_s) for other in node.neighbours.overlapping]


def shifted(other: NodeRun, offset_s: float) -> JobInterval:
    """Return the other run in the node's clock."""
    return JobInterval(other.start + offset_s, other.end + offset_s, other.processors)


def attribution_of(nodes: Sequence[NodeEvidence]) -> str:
    """Return the least certain attribution among the nodes."""
    found = {attribution(node.processors, node.neighbours.overlapping) for node in nodes}
    for how in ("unknown", "apportioned", "exclusive"):
        if how in found:
            return how
    return "unknown"


# Clocks differ, and a hook takes the last reading just after the job has ended.
_SLACK_S = 30.0
# Tolerance of a peak above its readings: a share of it, or the kernel's charges for page tables and the like.
_UNSEEN = 0.01
_OF_KERNEL_BYTES = 4 * 2**20

# The name of a job's cgroup is its id, or with Slurm 26.05 its SLUID.
# Names are looked up for each job: of a join with all of them, SQLite would make a filter from the whole table of jobs.
_ROWS = (
    "WITH asked(node_id, job_id) AS (VALUES {asked}) "
    "SELECT asked.node_id, asked.job_id, j.first_time, j.last_time, j.peak_bytes, j.readings "
    "FROM asked CROSS JOIN job_samples j WHERE j.node_id = asked.node_id AND j.job_id IN (SELECT asked.job_id UNION "
    "SELECT jobs.sluid FROM nodes CROSS JOIN jobs WHERE nodes.id = asked.node_id AND jobs.cluster = nodes.cluster "
    "AND jobs.job_id = asked.job_id AND jobs.sluid IS NOT NULL) ORDER BY j.first_time"
)
_OF_JOB = (
    "FROM job_samples WHERE node_id = :node_id AND job_id IN (SELECT CAST(:job_id AS TEXT) UNION ALL "
    "SELECT jobs.sluid FROM nodes CROSS JOIN jobs WHERE nodes.id = :node_id AND jobs.cluster = nodes.cluster "
    "AND jobs.job_id = :job_id AND jobs.sluid IS NOT NULL) AND last_time > :since"
)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row of ``job_samples``."""

    first_time: float
    last_time: float
    peak_bytes: int | None
    readings: str


@dataclass(frozen=True, slots=True)
class JobCgroup:
    """A job's readings on one node during one run, rising in time; NaN where a value is missing.

    ``cpu_s`` has no steps back: a cgroup recreated during the run adds to the one before. Memory in bytes:
    ``used`` is anonymous and shared memory, ``cache`` page cache, ``charged_peak`` the largest charge in all.
    """

    time: Floats
    cpu_s: Floats
    used: Floats
    cache: Floats
    charged_peak: float | None


_MEMORY = text(f"SELECT readings {_OF_JOB} AND first_time <= :until ORDER BY first_time")
_ANY = text(f"SELECT 1 {_OF_JOB} LIMIT 1")

StoredRows = Mapping[tuple[int, str], list[StoredRow]]


def read_job_rows(connection: Connection, asked: Iterable[tuple[int, str]]) -> StoredRows:
    """Read the stored rows of jobs on nodes, by (node id, job id)."""
    return rows_of_jobs(connection, _ROWS, asked, StoredRow)


def has_cgroup(connection: Connection, node_id: int, job_id: str, since: float) -> bool:
    """Return whether the job's cgroup was read on the node after ``since``."""
    key = {"node_id": node_id, "job_id": job_key(job_id), "since": since}
    return connection.execute(_ANY, key).first() is not None


def read_job_memory(
    connection: Connection, node_id: int, job_id: str, since: float, until: float
) -> list[tuple[float, float]]:
    """Read times after ``since`` up to ``until``, and the bytes of the job's cgroup on the node."""
    key = {"node_id": node_id, "job_id": job_key(job_id), "since": since, "until": until}
    found: list[tuple[float, float]] = []
    for (readings,) in connection.execute(_MEMORY, key):
        columns = load_columns(readings)
        pairs = zip(columns.time, columns.used, strict=True)
        found += [(time, used) for time, used in pairs if used is not None and since < time <= until]
    return sorted(found)


def job_cgroup(rows: Iterable[StoredRow], at: Boundaries, next_start: float | None) -> JobCgroup | None:
    """Return the readings of the run with the boundaries ``at``; None if there are none.

    ``next_start``: the next start of the same job, in the scheduler's clock, if any.
    """
    first, last = at.start, at.end + _SLACK_S  # before the start, it belongs to another run
    if next_start is not None:
        last = min(last, next_start + at.offset_s)
    readings: list[tuple[float, float | None, int | None, int | None]] = []
    peaks: list[int] = []
    for row in rows:
        if row.last_time < first or row.first_time > last:
            continue
        columns = load_columns(row.readings)
        readings += zip(columns.time, columns.cpu_s, columns.used, columns.cache, strict=True)
        if row.peak_bytes is not None:
            peaks.append(row.peak_bytes)
    within = sorted((reading for reading in readings if first <= reading[0] <= last), key=lambda reading: reading[0])
    if not within:
        return None
    time, cpu_s, used, cache = (np.array(column, dtype=np.float64) for column in zip(*within, strict=True))
    return JobCgroup(time, _without_restarts(cpu_s), used, cache, float(max(peaks)) if peaks else None)


def _without_restarts(cpu_s: Floats) -> Floats:
    known = np.flatnonzero(np.isfinite(cpu_s))
    if not len(known):
        return cpu_s
    values = cpu_s[known]
    fallen = np.flatnonzero(values[1:] < values[:-1]) + 1
    offsets = np.zeros(len(values))
    offsets[fallen] = values[fallen - 1]
    total = cpu_s.copy()
    total[known] = values + offsets.cumsum()
    return total


def cgroup_memory(group: JobCgroup, at: Boundaries, node_times: Floats) -> NodeMemory | Missing:
    """Return the job's own memory on the node.

    A cgroup that is gone holds nothing: where a reading of the node (``node_times``), by more than their interval
    before the cgroup's first or after its last, did not find it, the job had no memory there.
    """
    known = np.isfinite(group.used)
    time, used = group.time[known], group.used[known]
    if len(time) and len(node_times) > 1:
        near_s = interval_of(node_times)
        gone = node_times[(node_times < time[0] - near_s) | (node_times > time[-1] + near_s)]
        order = np.argsort(np.append(time, gone), kind="stable")
        time, used = np.append(time, gone)[order], np.append(used, np.zeros(len(gone)))[order]
    nothing = np.zeros(len(time))
    readings = Readings(time, nothing, nothing, nothing, used, nothing)
    return node_memory(readings, JobInterval(at.start, at.end, 1), (), 0.0)


def largest(values: Floats) -> float | None:
    """Return the largest known value."""
    return float(np.nanmax(values)) if np.isfinite(values).any() else None


def growth(time: Floats, used: Floats) -> float:
    """Return by how much the last reading exceeds one from half an interval or more before, if it is the largest.

    Hooks of other jobs add readings, between which little happens.
    """
    time, used = time[np.isfinite(used)], used[np.isfinite(used)]
    earlier = used[time <= time[-1] - interval_of(time) / 2] if len(used) > 1 else used[:0]
    return float(used[-1] - earlier[-1]) if len(earlier) and used[-1] == used.max() else 0.0


def rose_after(group: JobCgroup, known_bytes: float | None) -> bool:
    """Return whether ``known_bytes`` from elsewhere exceed the kernel's maximum: that was read before the peak."""
    known = known_bytes or 0.0
    return group.charged_peak is not None and known - group.charged_peak > max(_UNSEEN * known, _OF_KERNEL_BYTES)


def peak_was_read(group: JobCgroup, known_bytes: float = 0.0) -> bool | None:
    """Return whether a reading, or ``known_bytes`` from elsewhere, is the cgroup's true peak.

    None if the kernel's own maximum is not known. The kernel keeps the largest charge until it is read, page cache
    included. An excess over the largest reading of both together was held between two readings.
    """
    read, charged = largest(group.used), largest(group.used + group.cache)
    if group.charged_peak is None or read is None or charged is None:
        return None
    used = max(known_bytes, read)
    is_covered = group.charged_peak - charged - (used - read) <= max(_UNSEEN * used, _OF_KERNEL_BYTES)
    return is_covered and not rose_after(group, known_bytes)


def cgroup_cpu(
    group: JobCgroup, at: Boundaries, node_times: Floats, most_unknown: float = MOST_UNKNOWN
) -> float | Missing:
    """Return CPU seconds of the run; missing if more than the share ``most_unknown`` of it is unknown.

    The cgroup counts from the start of the job, so only the time after its last reading is unknown: until the end, or
    until the next reading of the node (``node_times``), which no longer found it. The rate is assumed constant.
    """
    known = np.flatnonzero(np.isfinite(group.cpu_s))
    if not len(known):
        return Missing("no CPU readings of its cgroup on {node}")
    last = float(group.time[known[-1]])
    later = node_times[node_times > last]
    until = min(at.end, float(later[0])) if len(later) else at.end
    life_s = at.end - at.start
    unknown_s = max(0.0, until - max(last, at.start))
    if unknown_s > most_unknown * life_s:
        share = round(most_unknown * 100)
        return Missing(f"the CPU readings of its cgroup on {{node}} leave more than {share} % of its life unknown")
    return float(group.cpu_s[known[-1]]) * life_s / (life_s - unknown_s)
