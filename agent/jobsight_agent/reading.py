"""One reading of a node, and its form on disk until it is part of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobsight_agent.procfiles import MOST_BYTES

EVENTS = ("start", "end")
KINDS = ("ethernet", "infiniband", "opa", "other")
METRICS = ("memory", "cpu", "network", "infiniband", "infiniband_stuck", "interfaces", "boot_id", "cgroups", "gpu")
MOST_INTERFACES = 64  # in a batch
MOST_JOBS = 512  # in a reading
MOST_GPUS = 16
LONGEST_JOB = 255  # a job's id
_LONGEST_NAME = 64  # of an interface or a boot
_MOST_CPUS = 2**31 - 1
_LATEST = 8e9  # in the year 2223; not much later, a double cannot tell a microsecond from the next
# Fields that may be missing at the end of a record: jobs, time since the boot, uncounted ports, GPUs.
_ADDED: tuple[Any, ...] = ([], None, [], [])
_FIELDS = 15


@dataclass(frozen=True, slots=True)
class Interface:
    """A counted network port; the width is that of the hardware's counter."""

    name: str
    kind: str
    width_bits: int
    speed_bps: int | None

    @property
    def most_bytes(self) -> int:
        """Return the counter's largest value; InfiniBand counts words of 4 bytes."""
        if self.width_bits == 64:
            return 2**64 - 1
        return (2**32 - 1) * (4 if self.kind in ("infiniband", "opa") else 1)


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks a reading taken by a job's prologue (``"start"``) or epilogue (``"end"``)."""

    job: str
    event: str


@dataclass(frozen=True, slots=True)
class JobUsage:
    """One job's cgroup at one instant; None is a value that could not be read.

    ``cpu_s`` is cumulative over all processors. ``anon_bytes`` and ``shmem_bytes`` must be reserved; ``file_bytes`` is
    page cache. ``charged_bytes`` is all of it and the kernel's own, ``peak_bytes`` its highest value so far.
    """

    job: str
    cpu_s: float | None = None
    anon_bytes: int | None = None
    shmem_bytes: int | None = None
    file_bytes: int | None = None
    charged_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A GPU's use and memory at one instant; None is a value that could not be read."""

    gpu: str
    busy_percent: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A node's counters at one instant; None is a value that could not be read.

    ``time`` is UTC epoch seconds; ``bytes_in`` and ``bytes_out`` are the raw counters in bytes, one per interface;
    ``cpu_busy_s`` is cumulative over all processors; ``missed`` names those of ``METRICS`` that could not be read.
    ``boottime_s`` is the time since the boot, independent of the clock. ``uncounted`` are ports without a counter.
    """

    time: float
    boot_id: str
    cpus: int
    memory_total_bytes: int | None
    interfaces: tuple[Interface, ...]
    bytes_in: tuple[int | None, ...]
    bytes_out: tuple[int | None, ...]
    memory_used_bytes: int | None
    cpu_busy_s: float | None
    mark: Mark | None = None
    missed: tuple[str, ...] = ()
    jobs: tuple[JobUsage, ...] = ()
    boottime_s: float | None = None
    uncounted: tuple[str, ...] = ()
    gpus: tuple[GpuReading, ...] = ()

    @property
    def shape(self) -> tuple[object, ...]:
        """Return the part that all readings of a batch share."""
        return self.boot_id, self.cpus, self.interfaces, self.uncounted, tuple(gpu.gpu for gpu in self.gpus)


def to_record(reading: Reading) -> list[Any]:
    """Turn a reading into a list for JSON, its fields in their order; ``from_record`` reads it."""
    record = [_plain(getattr(reading, name)) for name in reading.__dataclass_fields__]
    return record if reading.gpus else record[:-1]  # which agents without GPUs read, too


def _plain(value: Any) -> Any:
    """Turn the records in a value into lists of their fields."""
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    fields = getattr(value, "__dataclass_fields__", None)
    return value if fields is None else [getattr(value, name) for name in fields]


def from_record(record: Any) -> Reading:
    """Read what ``to_record`` wrote.

    Rejects what the server would reject: one such record must not cost its whole batch.

    Raises:
        ValueError: not such a record; files in the spool may be damaged or foreign.
    """
    fields = _list(record)
    if len(fields) < _FIELDS:
        fields += _ADDED[len(fields) - _FIELDS :]
    if len(fields) != _FIELDS:
        raise ValueError(f"not a reading: {len(fields)} fields, not {_FIELDS}")
    try:
        time, boot_id, cpus, total, interfaces, bytes_in, bytes_out, used, busy_s, mark, missed, *added = fields
        jobs, boottime_s, uncounted, gpus = added
        ports = tuple(_interface(*_list(interface)) for interface in _list(interfaces))
        reading = Reading(
            time=_number(time, _LATEST),
            boot_id=_name(boot_id, _LONGEST_NAME),
            cpus=_count(cpus, _MOST_CPUS),
            memory_total_bytes=_optional_count(total, MOST_BYTES),
            interfaces=ports,
            bytes_in=_counters(bytes_in, ports),
            bytes_out=_counters(bytes_out, ports),
            memory_used_bytes=_optional_count(used, MOST_BYTES),
            cpu_busy_s=None if busy_s is None else _number(busy_s, 1e15),
            mark=None if mark is None else _mark(*_list(mark)),
            missed=tuple(_one_of(name, METRICS) for name in _list(missed)),
            jobs=tuple(_job_usage(*_list(job)) for job in _list(jobs)),
            boottime_s=None if boottime_s is None else _number(boottime_s, 1e15),
            uncounted=tuple(_name(name, _LONGEST_NAME) for name in _list(uncounted)),
            gpus=tuple(_gpu_use(*_list(gpu)) for gpu in _list(gpus)),
        )
    except TypeError as error:
        raise ValueError(f"not a reading: {error}") from error
    names = [port.name for port in ports] + [*reading.uncounted]
    if len(set(names)) != len(names) or max(len(ports), len(reading.uncounted)) > MOST_INTERFACES:
        raise ValueError(f"not a reading: {len(ports)} interfaces; at most {MOST_INTERFACES}, each with its own name")
    if len({usage.job for usage in reading.jobs}) != len(reading.jobs) or len(reading.jobs) > MOST_JOBS:
        raise ValueError(f"not a reading: {len(reading.jobs)} jobs; at most {MOST_JOBS}, each with its own id")
    if len({use.gpu for use in reading.gpus}) != len(reading.gpus) or len(reading.gpus) > MOST_GPUS:
        raise ValueError(f"not a reading: {len(reading.gpus)} GPUs; at most {MOST_GPUS}, each with its own name")
    if reading.cpus < 1 or reading.time <= 0:
        raise ValueError(f"not a reading: {reading.cpus} cpus at time {reading.time!r}")
    return reading


def sendable_name(text: str, longest: int = _LONGEST_NAME) -> bool:
    """Return whether the server accepts the name: printable, so without NUL or half a character."""
    return 0 < len(text) <= longest and text.isprintable()


def _interface(name: Any, kind: Any, width_bits: Any, speed_bps: Any) -> Interface:
    if width_bits not in (32, 64):
        raise ValueError(f"not a counter's width: {width_bits!r:.80}")
    if speed_bps is not None and _count(speed_bps, MOST_BYTES) == 0:
        raise ValueError("a speed of 0; use null for an unknown speed")
    return Interface(_name(name, _LONGEST_NAME), _one_of(kind, KINDS), int(width_bits), speed_bps)


def _mark(job: Any, event: Any) -> Mark:
    return Mark(_name(job, LONGEST_JOB), _one_of(event, EVENTS))


def _job_usage(job: Any, cpu_s: Any, anon: Any, shmem: Any, file: Any, charged: Any, peak: Any) -> JobUsage:
    return JobUsage(
        _name(job, LONGEST_JOB),
        None if cpu_s is None else _number(cpu_s, 1e15),
        *(_optional_count(value, MOST_BYTES) for value in (anon, shmem, file, charged, peak)),
    )


def _gpu_use(gpu: Any, busy: Any, used: Any, total: Any) -> GpuReading:
    amounts = (_optional_count(value, MOST_BYTES) for value in (used, total))
    return GpuReading(_name(gpu, _LONGEST_NAME), _optional_count(busy, 100), *amounts)


def _counters(values: Any, ports: tuple[Interface, ...]) -> tuple[int | None, ...]:
    if len(_list(values)) != len(ports):
        raise ValueError(f"{len(values)} counters for {len(ports)} interfaces")
    return tuple(_optional_count(value, port.most_bytes) for value, port in zip(values, ports, strict=True))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"not a list: {value!r:.80}")
    return list(value)


def _name(value: Any, longest: int) -> str:
    if not isinstance(value, str) or not sendable_name(value, longest):
        raise ValueError(f"not a printable name of up to {longest} characters: {value!r:.80}")
    return value


def _one_of(value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{value!r:.80} is not one of {', '.join(allowed)}")
    return str(value)


def _count(value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"not a count up to {most}: {value!r:.80}")
    return value


def _optional_count(value: Any, most: int) -> int | None:
    return None if value is None else _count(value, most)


def _number(value: Any, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < most:
        raise ValueError(f"not a number from 0 to {most:g}: {value!r:.80}")
    return float(value)
