"""Decodes and checks a batch (docs/operate/wire-format.md)."""

from __future__ import annotations

import operator
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

MAX_READINGS = 5_000
MAX_INTERFACES = 64
MAX_MARKS = 2_000
MAX_JOBS = 4_000
MAX_JOB_READINGS = 100_000  # of all jobs together
INFINIBAND = ("infiniband", "opa")  # kinds of interfaces that count words of four bytes
LARGEST_COUNTER = 2**64 - 1
LARGEST_INTEGER = 2**63 - 1

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Counter = Annotated[int, Meta(ge=0)]
# Far above any real value, and far below the point where sums of such values exceed the range of a double.
Seconds = Annotated[float, Meta(ge=0, le=1e15)]
Instant = Annotated[float, Meta(ge=-1e15, le=1e15)]


class WireError(ValueError):
    """A batch that can never be stored; the message says what is wrong and where."""


class TooLargeError(WireError):
    """A batch over a size limit."""


class BatchInterface(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    kind: Literal["ethernet", "infiniband", "opa", "other"]
    width_bits: Literal[32, 64]
    speed_bps: Annotated[float, Meta(gt=0, le=1e15)] | None = None


class BatchMark(Struct, frozen=True):
    index: Annotated[int, Meta(ge=0, lt=MAX_READINGS)]
    job: Name
    event: Literal["start", "end"]


class BatchJob(Struct, frozen=True):
    """One job's cgroup at the readings ``index``: columns of equal length, memory in bytes."""

    job: Name
    index: Annotated[list[Annotated[int, Meta(ge=0, lt=MAX_READINGS)]], Meta(min_length=1)]
    cpu_s: list[Seconds | None]
    anon_bytes: list[Count | None]
    shmem_bytes: list[Count | None]
    file_bytes: list[Count | None]
    charged_bytes: list[Count | None]
    peak_bytes: Count | None = None


class AgentReport(Struct, frozen=True):
    version: Annotated[str, Meta(max_length=64)] = ""
    cpu_seconds: Seconds = 0.0
    rss_bytes: Count = 0
    readings: Count = 0
    readings_missed: Count = 0
    metrics_missed: Annotated[dict[Annotated[str, Meta(max_length=64)], Count], Meta(max_length=64)] = {}
    batches_spooled: Count = 0
    batches_dropped: Count = 0
    send_failures: Count = 0
    batches_refused: Count = 0


Word = Annotated[str, Meta(min_length=1, max_length=64)]
Amount = Annotated[float, Meta(gt=0, le=1e18)]


class BatchMachine(Struct, frozen=True):
    """The node's kind of machine, and whether its owner is at it; None is unknown."""

    id: Word | None = None
    system: Word | None = None
    cores: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    clock_hz: Amount | None = None
    benchmark_flops: Amount | None = None
    storage_bytes: Count | None = None
    uptime_s: Seconds | None = None
    logins: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    foreign_load: Annotated[float, Meta(ge=0, le=1e6)] | None = None
    owner_present: bool | None = None


class Batch(Struct, frozen=True):
    """One batch as sent: columns of n readings."""

    format: Literal[1, 2]
    cluster: Name
    node: Name
    boot_id: Annotated[str, Meta(min_length=1, max_length=64)]
    sequence: Count
    cpus: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    interfaces: Annotated[list[BatchInterface], Meta(max_length=MAX_INTERFACES)]
    time: Annotated[list[float], Meta(min_length=1, max_length=MAX_READINGS)]
    bytes_in: list[list[Counter | None]]
    bytes_out: list[list[Counter | None]]
    memory_used_bytes: list[Count | None]
    cpu_busy_s: list[Seconds | None]
    sent_at: Instant | None = None
    memory_total_bytes: Count | None = None
    marks: Annotated[list[BatchMark], Meta(max_length=MAX_MARKS)] = []
    agent: AgentReport = AgentReport()
    machine: BatchMachine | None = None
    jobs: Annotated[list[BatchJob], Meta(max_length=MAX_JOBS)] = []


_decoder = msgspec.json.Decoder(Batch)


def decode(payload: bytes | bytearray) -> Batch:
    """Return the batch in ``payload``, with all columns checked against each other.

    Raises:
        WireError: not JSON, a wrong type or range, columns of unequal length, times that do not rise.
    """
    try:
        batch = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WireError(str(error)) from error
    except RecursionError as error:
        raise WireError("the JSON is nested too deeply; a batch has three levels") from error
    n, interfaces = len(batch.time), len(batch.interfaces)
    for name in ("bytes_in", "bytes_out"):
        columns = getattr(batch, name)
        if len(columns) != interfaces:
            raise WireError(f"{name} has {len(columns)} columns for {interfaces} interfaces")
        for interface, column in zip(batch.interfaces, columns, strict=True):
            _check_length(f"{name} of {interface.name}", column, n)
            _check_counter(name, interface, column)
    _check_length("memory_used_bytes", batch.memory_used_bytes, n)
    _check_length("cpu_busy_s", batch.cpu_busy_s, n)
    if len({interface.name for interface in batch.interfaces}) != interfaces:
        raise WireError("two interfaces have the same name")
    if batch.time[0] < 0 or not all(map(operator.lt, batch.time, batch.time[1:])):
        index = next((i for i, (a, b) in enumerate(pairwise(batch.time), 1) if a >= b), 0)
        raise WireError(f"time must rise: position {index} holds {batch.time[index]!r}")
    for mark in batch.marks:
        if mark.index >= n:
            raise WireError(f"a mark of job {mark.job!r} points to reading {mark.index} of {n}")
    _check_jobs(batch)
    machine = () if batch.machine is None else filter(None, (batch.machine.id, batch.machine.system))
    for text in (batch.cluster, batch.node, batch.boot_id, *(mark.job for mark in batch.marks), *machine):
        if "\x00" in text:
            raise WireError(f"the name {text!r} contains a NUL character")
    return batch


def _check_jobs(batch: Batch) -> None:
    if batch.jobs and batch.format == 1:
        raise WireError("format 1 has no jobs; send format 2")
    if sum(len(job.index) for job in batch.jobs) > MAX_JOB_READINGS:
        raise WireError(f"more than {MAX_JOB_READINGS} readings of jobs")
    if len({job.job for job in batch.jobs}) != len(batch.jobs):
        raise WireError("two entries of jobs have the same id")
    for job in batch.jobs:
        if not job.job.isprintable():
            raise WireError(f"{job.job!r:.100} is not a job id: not printable")
        if not all(map(operator.lt, job.index, job.index[1:])) or job.index[-1] >= len(batch.time):
            raise WireError(f"index of job {job.job!r}: it must rise and stay below {len(batch.time)}")
        for name in ("cpu_s", "anon_bytes", "shmem_bytes", "file_bytes", "charged_bytes"):
            if len(getattr(job, name)) != len(job.index):
                raise WireError(
                    f"{name} of job {job.job!r} has {len(getattr(job, name))} values for {len(job.index)} readings"
                )


def _check_length(name: str, column: list[int | None] | list[float | None], n: int) -> None:
    if len(column) != n:
        raise WireError(f"{name} has {len(column)} values for {n} times")


def _check_counter(name: str, interface: BatchInterface, column: list[int | None]) -> None:
    limit = LARGEST_COUNTER
    if interface.width_bits == 32:
        # An InfiniBand counter counts 4-byte words and is sent in bytes.
        limit = (2**32 - 1) * (4 if interface.kind in INFINIBAND else 1)
    largest = max((value for value in column if value is not None), default=0)
    if largest > limit:
        raise WireError(f"{name} of {interface.name}: {largest} does not fit a {interface.width_bits}-bit counter")
