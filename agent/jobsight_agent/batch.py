"""Packs readings into batches (docs/operate/wire-format.md)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobsight_agent.machine import NodeDescription, OwnerPresence
from jobsight_agent.reading import GpuReading, Interface, JobUsage, Mark, Reading

FORMAT = 1
FORMAT_WITH_JOBS = 2
MICROSECONDS = 1_000_000
GZIP_CONTAINER = 31
_LONGEST_BATCH = 1000  # the server takes 5,000 readings and 2,000 marks
_MOST_JOB_READINGS = 20_000  # the server takes 100,000, of 4,000 jobs
_MOST_JOBS = 2000
_PLAIN_COLUMNS = ("memory_used_bytes", "cpu_busy_s", "boottime_s")
_SENT_COLUMNS = ("time", "bytes_in", "bytes_out", "memory_used_bytes", "cpu_busy_s")
_COLUMNS_OF_JOB = ("cpu_s", "anon_bytes", "shmem_bytes", "file_bytes", "charged_bytes")


@dataclass(frozen=True, slots=True)
class AgentCost:
    """The agent's own cost and losses since it started; drops are counted across restarts."""

    version: str
    cpu_seconds: float = 0.0
    rss_bytes: int = 0
    readings: int = 0
    readings_missed: int = 0
    metrics_missed: Mapping[str, int] = field(default_factory=dict)
    batches_spooled: int = 0
    batches_dropped: int = 0
    send_failures: int = 0
    batches_refused: int = 0


@dataclass(slots=True)
class BatchColumns:
    """Readings of one ``shape`` in order of time: a list for each quantity, and for each interface of ``bytes_in``
    and ``bytes_out``. ``marks`` are (index of the reading, mark); ``jobs`` has (index, use) for each job; ``gpus`` are
    as sent."""

    boot_id: str
    cpus: int
    memory_total_bytes: int | None
    interfaces: tuple[Interface, ...]
    time: list[float]
    bytes_in: list[list[int | None]]
    bytes_out: list[list[int | None]]
    memory_used_bytes: list[int | None]
    cpu_busy_s: list[float | None]
    marks: list[tuple[int, Mark]]
    jobs: dict[str, list[tuple[int, JobUsage]]] = field(default_factory=dict)
    boottime_s: list[float | None] = field(default_factory=list)
    uncounted: tuple[str, ...] = ()
    gpus: list[dict[str, Any]] = field(default_factory=list)


def in_order(readings: Sequence[Reading]) -> tuple[list[Reading], list[float]]:
    """Sort the readings by time; equal times move on by a microsecond, so that times rise strictly."""
    ordered = sorted(readings, key=lambda reading: reading.time)
    times: list[int] = []
    for reading in ordered:
        instant = round(reading.time * MICROSECONDS)
        times.append(max(instant, times[-1] + 1) if times else instant)
    return ordered, [instant / MICROSECONDS for instant in times]


def in_batches(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Split the readings into groups that fit into a batch: one shape, no step back of the clock, not too many.

    When the clock is set back, sorting by time would mix counters from before and after. A card that disappears and
    returns makes three batches: the server notices.
    """
    groups: dict[object, list[Reading]] = {}
    turns = 0
    last: Reading | None = None
    for reading in readings:
        if reading.mark is None:  # readings of job hooks may be older than the ones before them
            turns += last is not None and (reading.time < last.time or reading.shape != last.shape)
            last = reading
        groups.setdefault((turns, reading.shape), []).append(reading)
    return [part for group in groups.values() for part in _parts(group)]


def _parts(group: Sequence[Reading]) -> Iterator[list[Reading]]:
    """Split ``group`` into parts within the limits on readings and jobs."""
    part: list[Reading] = []
    jobs: set[str] = set()
    job_readings = 0
    for reading in group:
        together = jobs.union(usage.job for usage in reading.jobs)
        job_readings += len(reading.jobs)
        full = len(part) == _LONGEST_BATCH or len(together) > _MOST_JOBS or job_readings > _MOST_JOB_READINGS
        if part and full:
            yield part
            part, together, job_readings = [], {usage.job for usage in reading.jobs}, len(reading.jobs)
        part.append(reading)
        jobs = together
    if part:
        yield part


def to_columns(readings: Sequence[Reading]) -> BatchColumns:
    """Turn readings into columns; at least one, all of the same ``shape``."""
    ordered, times = in_order(readings)
    last = ordered[-1]
    ports = range(len(last.interfaces))
    plain: dict[str, Any] = {name: [getattr(reading, name) for reading in ordered] for name in _PLAIN_COLUMNS}
    jobs: dict[str, list[tuple[int, JobUsage]]] = {}
    for index, reading in enumerate(ordered):
        for usage in reading.jobs:
            jobs.setdefault(usage.job, []).append((index, usage))
    return BatchColumns(
        **{name: getattr(last, name) for name in ("boot_id", "cpus", "interfaces", "uncounted")},
        memory_total_bytes=next((r.memory_total_bytes for r in reversed(ordered) if r.memory_total_bytes), None),
        time=times,
        bytes_in=[[reading.bytes_in[port] for reading in ordered] for port in ports],
        bytes_out=[[reading.bytes_out[port] for reading in ordered] for port in ports],
        **plain,
        marks=[(index, reading.mark) for index, reading in enumerate(ordered) if reading.mark is not None],
        jobs=jobs,
        gpus=[_gpu_to_wire([reading.gpus[number] for reading in ordered]) for number in range(len(last.gpus))],
    )


def to_wire(
    columns: BatchColumns,
    *,
    cluster: str,
    node: str,
    sequence: int,
    sent_at: float | None,
    cost: AgentCost,
    machine: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Make a batch of at least one reading; ``machine`` is from ``machine_to_wire``."""
    batch: dict[str, Any] = {
        "format": FORMAT_WITH_JOBS if columns.jobs else FORMAT,  # servers before format 2 take nodes without jobs
        "cluster": cluster,
        "node": node,
        "boot_id": columns.boot_id,
        "sequence": sequence,
        "sent_at": sent_at,
        "cpus": columns.cpus,
        "memory_total_bytes": columns.memory_total_bytes,
        "interfaces": [_fields(port) for port in columns.interfaces],
        **{name: getattr(columns, name) for name in _SENT_COLUMNS},
        "marks": [{"index": index, "job": mark.job, "event": mark.event} for index, mark in columns.marks],
        **({"jobs": [_job_to_wire(job, uses) for job, uses in columns.jobs.items()]} if columns.jobs else {}),
        "agent": {**_fields(cost), "metrics_missed": dict(cost.metrics_missed)},
    }
    if any(columns.boottime_s):
        batch["boottime_s"] = columns.boottime_s
    more = {"uncounted": columns.uncounted, "gpus": columns.gpus, "machine": machine}
    return batch | {name: value for name, value in more.items() if value}


def _job_to_wire(job: str, uses: Sequence[tuple[int, JobUsage]]) -> dict[str, Any]:
    peaks = [usage.peak_bytes for _, usage in uses if usage.peak_bytes is not None]
    return {
        "job": job,
        "index": [index for index, _ in uses],
        **{name: [getattr(usage, name) for _, usage in uses] for name in _COLUMNS_OF_JOB},
        "peak_bytes": max(peaks, default=None),
    }


def _gpu_to_wire(uses: Sequence[GpuReading]) -> dict[str, Any]:
    return {
        "gpu": uses[0].gpu,
        "total_bytes": max((use.total_bytes for use in uses if use.total_bytes is not None), default=None),
        "busy_percent": [use.busy_percent for use in uses],
        "used_bytes": [use.used_bytes for use in uses],
    }


def machine_to_wire(facts: NodeDescription, owner: OwnerPresence, uptime_s: float | None) -> dict[str, Any]:
    """Describe the machine for a batch; ``uptime_s`` is that of the last reading."""
    return {
        **_fields(facts),
        "uptime_s": uptime_s,
        "logins": owner.logins,
        "foreign_load": owner.foreign_load,
        "owner_present": owner.present,
    }


def _fields(record: AgentCost | Interface | NodeDescription) -> dict[str, Any]:
    """Return the fields by name, as on the wire."""
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def pack(batch: Mapping[str, Any], gzip_level: int) -> bytes:
    """Make the body of the request: compact JSON, gzip. The same batch always gives the same bytes."""
    text = json.dumps(batch, separators=(",", ":"), allow_nan=False)
    return zlib.compress(text.encode("utf-8"), gzip_level, GZIP_CONTAINER)
