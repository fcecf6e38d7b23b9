"""Unpacks, decodes and checks a batch (docs/operate/wire-format.md).

A gzip stream ends with the length of its content. That length is reserved, within a limit for all batches together,
before anything is unpacked; a longer stream lied or is damaged, and is then inspected only piece by piece until it is
clear which.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from jobsight_server.storage.fields_once import check_fields_once
from jobsight_server.storage.readings.sent import INFINIBAND, BatchInterface

MAX_READINGS = 5_000
MAX_INTERFACES = 64
MAX_MARKS = 2_000
MAX_JOBS = 4_000
MAX_GPUS = 16
MAX_JOB_READINGS = 100_000  # of all jobs together
LARGEST_COUNTER = 2**64 - 1
LARGEST_INTEGER = 2**63 - 1

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Counter = Annotated[int, Meta(ge=0)]
# Far above any real value, and far below the point where sums of such values exceed the range of a double.
Seconds = Annotated[float, Meta(ge=0, le=1e15)]
Instant = Annotated[float, Meta(ge=-1e15, le=1e15)]


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


class BatchGpu(Struct, frozen=True):
    """One GPU: a value of each column for each reading."""

    gpu: Annotated[str, Meta(min_length=1, max_length=64)]
    busy_percent: list[Annotated[int, Meta(ge=0, le=100)] | None]
    used_bytes: list[Count | None]
    total_bytes: Count | None = None


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
    boottime_s: list[Seconds | None] | None = None
    uncounted: Annotated[list[Word], Meta(max_length=MAX_INTERFACES)] = []
    gpus: Annotated[list[BatchGpu], Meta(max_length=MAX_GPUS)] = []


@dataclass(frozen=True, slots=True)
class Submission:
    """A decoded batch, the checksum of its payload, and its time of arrival."""

    batch: Batch
    checksum: int
    received_at: float


class RefusedBatchError(Exception):
    """A batch to be answered with ``status`` and counted under ``label``."""

    status: int
    label: str

    def __init__(self, reason: str, label: str = "", batch: Batch | None = None) -> None:
        super().__init__(reason)
        self.label, self.batch = label or self.label, batch

    @property
    def is_kept(self) -> bool:
        """Return whether its body goes to quarantine: its agent would drop it, or send it again in vain."""
        return self.status in {400, 422}


class WireError(RefusedBatchError):
    """A batch that can never be stored; the message says what is wrong and where."""

    status, label = 422, "wrong content"


class UnreadableBodyError(RefusedBatchError):
    """A body that cannot be unpacked."""

    status, label = 400, "not readable"


class TooLargeError(RefusedBatchError):
    """A batch over a size limit."""

    status, label = 413, "too large"


class ForbiddenError(RefusedBatchError):
    """A batch that the sender keeps: it is stored once the token or the settings are corrected."""

    status, label = 403, "not authorised"


class UnavailableError(RefusedBatchError):
    """The batch was not stored, through no fault of its own: the agent retries later."""

    status, label = 503, "database"


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a submission: ``stored``, ``duplicate`` or ``conflict``."""

    status: str
    samples: int = 0


_decoder = msgspec.json.Decoder(Batch)


def decode(payload: bytes | bytearray) -> Batch:
    """Return the batch in ``payload``, with all columns checked against each other.

    Raises:
        WireError: not JSON, a field given twice, more values than any batch has, which would take much memory as
            objects, a wrong type or range, columns of unequal length, times that do not rise.
    """
    for sign, most in _MOST_OF.items():
        if len(payload) > most and payload.count(sign) > most:
            raise WireError(f"there are more than {most} {sign.decode()!r} in it: no batch has that many values")
    try:
        batch = _decoder.decode(payload)
        check_fields_once(payload)
    except ValueError as error:
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
    for name in ("memory_used_bytes", "cpu_busy_s", "boottime_s"):
        if (column := getattr(batch, name)) is not None:
            _check_length(name, column, n)
    for gpu in batch.gpus:
        for name in ("busy_percent", "used_bytes"):
            _check_length(f"{name} of {gpu.gpu}", getattr(gpu, name), n)
    _check_apart("gpus have the same name", [gpu.gpu for gpu in batch.gpus])
    _check_apart("interfaces have the same name", [interface.name for interface in batch.interfaces])
    if batch.time[0] < 0 or not all(map(operator.lt, batch.time, batch.time[1:])):
        index = next((i for i, (a, b) in enumerate(pairwise(batch.time), 1) if a >= b), 0)
        raise WireError(f"time must rise: position {index} holds {batch.time[index]!r}")
    for mark in batch.marks:
        if mark.index >= n:
            raise WireError(f"a mark of job {mark.job!r} points to reading {mark.index} of {n}")
    _check_jobs(batch)
    machine = () if batch.machine is None else filter(None, (batch.machine.id, batch.machine.system))
    marked = (mark.job for mark in batch.marks)
    gpus = (gpu.gpu for gpu in batch.gpus)
    for text in (batch.cluster, batch.node, batch.boot_id, *batch.uncounted, *marked, *machine, *gpus):
        if "\x00" in text:
            raise WireError(f"the name {text!r} contains a NUL character")
    return batch


def _check_jobs(batch: Batch) -> None:
    if batch.jobs and batch.format == 1:
        raise WireError("format 1 has no jobs; send format 2")
    if sum(len(job.index) for job in batch.jobs) > MAX_JOB_READINGS:
        raise WireError(f"more than {MAX_JOB_READINGS} readings of jobs")
    _check_apart("entries of jobs have the same id", [job.job for job in batch.jobs])
    for job in batch.jobs:
        if not job.job.isprintable():
            raise WireError(f"{job.job!r:.100} is not a job id: not printable")
        if not all(map(operator.lt, job.index, job.index[1:])) or job.index[-1] >= len(batch.time):
            raise WireError(f"index of job {job.job!r}: it must rise and stay below {len(batch.time)}")
        for name in ("cpu_s", "anon_bytes", "shmem_bytes", "file_bytes", "charged_bytes"):
            _check_length(f"{name} of job {job.job!r}", getattr(job, name), len(job.index), "readings")


def _check_apart(what: str, names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise WireError(f"two {what}")


def _check_length(name: str, column: Sequence[float | None], n: int, of: str = "times") -> None:
    if len(column) != n:
        raise WireError(f"{name} has {len(column)} values for {n} {of}")


def _check_counter(name: str, interface: BatchInterface, column: list[int | None]) -> None:
    limit = LARGEST_COUNTER
    if interface.width_bits == 32:
        # An InfiniBand counter counts 4-byte words and is sent in bytes.
        limit = (2**32 - 1) * (4 if interface.kind in INFINIBAND else 1)
    largest = max(filter(None, column), default=0)
    if largest > limit:
        raise WireError(f"{name} of {interface.name}: {largest} does not fit a {interface.width_bits}-bit counter")


_TAKEN_BYTES = 16 * 1024
_GIVEN_BYTES = 256 * 1024
_SMALLEST_GZIP = 18

_OF_JOBS = 6 * MAX_JOB_READINGS + 8 * MAX_JOBS + 10_000
# As many as in a batch of the largest allowed shape, and some for punctuation in names.
_MOST_OF = {
    b",": MAX_READINGS * (2 * MAX_INTERFACES + 2 * MAX_GPUS + 4) + 3 * MAX_MARKS + _OF_JOBS,
    b":": 50_000 + 8 * MAX_JOBS,
    b"[": 20_000 + 6 * MAX_JOBS,
}


def stated_length(body: bytes, encoding: str, max_unpacked_bytes: int) -> int:
    """Return the unpacked length that ``body`` states; 0 if that is more than allowed."""
    if encoding != "gzip":
        return len(body)
    length = int.from_bytes(body[-4:], "little") if len(body) >= _SMALLEST_GZIP else 0
    return length if length <= max_unpacked_bytes else 0


def unpack(body: bytes, encoding: str, max_unpacked_bytes: int) -> bytes | bytearray:
    """Return ``body`` without its ``Content-Encoding``.

    Raises:
        UnreadableError: an encoding other than gzip or identity, or damaged gzip.
        TooLargeError: the result exceeds ``max_unpacked_bytes``; no more than ``stated_length`` is ever held.
    """
    if encoding == "gzip":
        return _inflate(body, stated_length(body, encoding, max_unpacked_bytes), max_unpacked_bytes)
    if encoding not in {"", "identity"}:
        raise UnreadableBodyError(f"Content-Encoding {encoding[:50]!r} is not supported; use gzip or none")
    if len(body) > max_unpacked_bytes:
        raise TooLargeError(f"the batch has more than {max_unpacked_bytes} bytes")
    return body


def _inflate(body: bytes, stated: int, max_unpacked_bytes: int) -> bytearray:
    unpacked, length = bytearray(), 0
    for piece in _pieces(body):
        length += len(piece)
        if length > max_unpacked_bytes:
            raise TooLargeError(f"the batch unpacks to more than {max_unpacked_bytes} bytes")
        if length <= stated:
            unpacked += piece
    return unpacked


def _pieces(body: bytes) -> Iterator[bytes]:
    """Yield the content of a gzip stream, piece by piece; complete if the end is reached."""
    inflater = zlib.decompressobj(wbits=31)
    view, taken = memoryview(body), 0
    try:
        while taken < len(body) and not inflater.eof:
            rest = view[taken : taken + _TAKEN_BYTES]
            taken += len(rest)
            while rest and not inflater.eof:
                yield inflater.decompress(rest, _GIVEN_BYTES)
                rest = memoryview(inflater.unconsumed_tail)
        while not inflater.eof and (piece := inflater.decompress(b"", _GIVEN_BYTES)):
            yield piece
    except zlib.error as error:
        raise UnreadableBodyError(f"damaged gzip: {error}") from error
    if not inflater.eof:
        raise UnreadableBodyError(f"truncated gzip stream ({len(body)} bytes)")
    following = len(inflater.unused_data) + len(body) - taken
    if following:
        raise UnreadableBodyError(f"{following} bytes follow the end of the gzip stream")
