"""The life of one node as segments between events, and the readings of its agent."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobsight_agent.batch import BatchColumns
from jobsight_agent.reading import JobUsage, Mark
from jobsight_emulator.placement import EmulatedRun, Place
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.site import MEMORY_BYTES, PROCESSORS, EmulatedNode

# A machine's totals by the time its agent starts after a boot.
_BOOT_CPU_S = 18.0
_BOOT_BYTES = 4096


Active = tuple[tuple[EmulatedRun, Place], ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """From ``start`` until ``end`` (true time). Counters are (in, out) per interface, without wraps.

    ``hooks`` are (job id, event) of the hooks' readings at ``start``, between the ends and the starts of jobs, when the
    node holds ``hook_memory_bytes``. ``jobs`` run in the segment, ``hook_jobs`` in the one before; hooks still find the
    cgroups of the latter.
    Regular readings ``first`` to ``last`` (exclusive) of the node fall into the segment.
    """

    boot: int
    start: float
    end: float
    first: int
    last: int
    counters: tuple[tuple[float, float], ...]
    rates: tuple[tuple[float, float], ...]
    cpu_s: float
    cpu_rate: float
    memory_bytes: float
    hooks: tuple[tuple[str, str], ...]
    hook_memory_bytes: float
    jobs: Active
    hook_jobs: Active


@dataclass(slots=True)
class _Event:
    ends: list[EmulatedRun] = field(default_factory=list)
    starts: list[tuple[EmulatedRun, Place]] = field(default_factory=list)
    hooks: list[tuple[str, str]] = field(default_factory=list)
    up: int | None = None


def first_reading(node: EmulatedNode, plan: SitePlan) -> float:
    """Return the true time of the node's regular reading number 0."""
    return plan.start + node.phase_s


def reading_number(node: EmulatedNode, plan: SitePlan, time: float) -> int:
    """Return the number of the first regular reading at or after ``time``."""
    return max(0, math.ceil((time - first_reading(node, plan)) / plan.interval_s))


def make_segments(node: EmulatedNode, position: int, runs: Iterable[EmulatedRun], plan: SitePlan) -> list[Segment]:
    """Make the segments of ``node``, at ``position`` in its cluster, without down times."""
    events = _events(node, position, runs)
    events.setdefault(plan.start, _Event())
    times = sorted(events)
    counters = [(float(first_in), float(first_out)) for first_in, first_out in node.first_counters]
    cpu_s, boot = node.first_cpu_s, 0
    active: Active = ()
    segments = []
    for time, until in zip(times, [*times[1:], plan.end], strict=True):
        event = events[time]
        before = active
        active = tuple(pair for pair in before if pair[0] not in event.ends)
        begin: float = time
        if event.up is not None:
            assert not active
            boot += 1
            begin = event.up
            counters = [(float(_BOOT_BYTES), float(_BOOT_BYTES // 2)) for _ in counters]
            cpu_s = _BOOT_CPU_S
        hook_memory = _memory(node, active)
        active = (*active, *event.starts)
        rates, cpu_rate = _rates(node, active)
        segments.append(
            Segment(
                boot=boot,
                start=begin,
                end=until,
                first=reading_number(node, plan, begin),
                last=reading_number(node, plan, until),
                counters=tuple(counters),
                rates=rates,
                cpu_s=cpu_s,
                cpu_rate=cpu_rate,
                memory_bytes=_memory(node, active),
                hooks=tuple(event.hooks),
                hook_memory_bytes=hook_memory,
                jobs=active,
                hook_jobs=before if event.up is None else (),
            )
        )
        length = until - begin
        counters = [
            (received + rate_in * length, sent + rate_out * length)
            for (received, sent), (rate_in, rate_out) in zip(counters, rates, strict=True)
        ]
        cpu_s += cpu_rate * length
    return segments


def _events(node: EmulatedNode, position: int, runs: Iterable[EmulatedRun]) -> dict[int, _Event]:
    events: dict[int, _Event] = {}
    for run in runs:
        for place in run.places:
            if place.node != position:
                continue
            start = events.setdefault(run.start, _Event())
            start.starts.append((run, place))
            if (position, "start") not in run.lost_marks:
                start.hooks.append((run.job.id, "start"))
            if run.end is not None:
                end = events.setdefault(run.end, _Event())
                end.ends.append(run)
                if run.killed_on != position and (position, "end") not in run.lost_marks:
                    end.hooks.insert(0, (run.job.id, "end"))
    for outage in node.outages:
        events.setdefault(outage.down, _Event()).up = outage.up
    return events


def _memory(node: EmulatedNode, active: Active) -> float:
    return node.idle_memory_bytes + sum(place.memory_bytes for _, place in active)


def _rates(node: EmulatedNode, active: Active) -> tuple[tuple[tuple[float, float], ...], float]:
    received = node.background_in_bytes_s + sum(place.in_bytes_s for _, place in active)
    sent = node.background_out_bytes_s + sum(place.out_bytes_s for _, place in active)
    busy = node.idle_cpu + sum(_cpu_rate(run, place) for run, place in active)
    return tuple((received * share, sent * share) for share in node.traffic_shares), min(busy, 16.0)


def _cpu_rate(run: EmulatedRun, place: Place) -> float:
    return run.job.demand.cpu_utilisation * len(place.slots)


# Noise in [-1, 1], looked up by the number of the reading: cheap, and independent of slicing.
_NOISE_BITS = 12
_NOISE_MASK = 2**_NOISE_BITS - 1
# Variation of a job's memory, and of the time of its traffic in intervals.
MEMORY_NOISE = 0.002
# Page cache of a job relative to its memory, as in its cgroup.
CACHE_SHARE = 0.5
_TRAFFIC_JITTER = 0.01
_IDLE_NOISE_KIB = 300.0
# Hooks in the same second take their readings one after the other.
_HOOK_STEP_S = 0.001


_OF_NODE, _OF_PORTS = ("time", "memory_used_bytes", "cpu_busy_s"), ("bytes_in", "bytes_out")


@dataclass(slots=True)
class NodeColumns(BatchColumns):
    """Consecutive readings of one boot. ``lost`` counts regular readings dropped on purpose so far."""

    lost: int = 0

    def __len__(self) -> int:
        return len(self.time)

    def part(self, begin: int, end: int) -> NodeColumns:
        """Return the readings from position ``begin`` until ``end``."""
        parts: dict[str, Any] = {name: getattr(self, name)[begin:end] for name in _OF_NODE}
        parts |= {name: [column[begin:end] for column in getattr(self, name)] for name in _OF_PORTS}
        return replace(
            self,
            **parts,
            marks=[(index - begin, mark) for index, mark in self.marks if begin <= index < end],
            jobs={
                job: part
                for job, uses in self.jobs.items()
                if (part := [(index - begin, usage) for index, usage in uses if begin <= index < end])
            },
        )


class EmulatedReader:
    """Reads one emulated node over time. ``lost`` counts the regular readings dropped on purpose."""

    def __init__(self, node: EmulatedNode, segments: list[Segment], plan: SitePlan) -> None:
        self.node = node
        self._segments = segments
        self._plan = plan
        rng = plan.rng("readings", node.name)
        self._boot_ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(1 + len(node.outages))]
        self._noise = [rng.uniform(-1.0, 1.0) for _ in range(2**_NOISE_BITS)]
        self._lost = frozenset(node.lost)
        self.lost = 0
        self._current = 0
        self._hooks_done = False
        self._next = 0

    def advance(self, until: float) -> list[NodeColumns]:
        """Yield all new readings before ``until``, one ``NodeColumns`` per boot."""
        until = min(until, self.node.silent_from)
        number = reading_number(self.node, self._plan, until)
        given: list[NodeColumns] = []
        while self._current < len(self._segments):
            segment = self._segments[self._current]
            if segment.start >= until:
                break
            boot_id = self._boot_ids[segment.boot]
            if not given or given[-1].boot_id != boot_id:
                given.append(self._no_readings(boot_id))
            if not self._hooks_done:
                self._take_hooks(segment, given[-1])
                self._hooks_done = True
                self._next = segment.first
            last = min(segment.last, number)
            if self._next < last:
                self._take_regular(segment, self._next, last, given[-1])
                self._next = last
            if segment.end > until:
                break
            self._current += 1
            self._hooks_done = False
        return [columns for columns in given if columns.time]

    def _no_readings(self, boot_id: str) -> NodeColumns:
        nothing: dict[str, Any] = {name: [] for name in (*_OF_NODE, "marks")}
        nothing |= {name: [[] for _ in self.node.interfaces] for name in _OF_PORTS}
        return NodeColumns(
            boot_id=boot_id,
            cpus=PROCESSORS,
            memory_total_bytes=MEMORY_BYTES,
            interfaces=self.node.interfaces,
            **nothing,
        )

    def _take_hooks(self, segment: Segment, columns: NodeColumns) -> None:
        for step, (job, event) in enumerate(segment.hooks):
            elapsed = step * _HOOK_STEP_S
            columns.marks.append((len(columns.time), Mark(job, event)))
            self._take_cgroups(segment.hook_jobs, columns, [segment.start + elapsed], [0.0])
            columns.time.append(round(segment.start + self.node.skew_s + elapsed, 3))
            self._take_counters(segment, [elapsed], columns)
            columns.memory_used_bytes.append(int(segment.hook_memory_bytes / 1024) * 1024)

    def _take_regular(self, segment: Segment, first: int, last: int, columns: NodeColumns) -> None:
        """Regular readings ``first`` to ``last`` (exclusive) of ``segment``."""
        numbers = [number for number in range(first, last) if number not in self._lost]
        self.lost += last - first - len(numbers)
        columns.lost = self.lost
        if not numbers:
            return
        interval, noise = self._plan.interval_s, self._noise
        begin = first_reading(self.node, self._plan)
        reported = begin + self.node.skew_s
        offset, jitter = begin - segment.start, _TRAFFIC_JITTER * interval
        elapsed = [offset + number * interval + jitter * noise[number & _NOISE_MASK] for number in numbers]
        # No jitter next to an event: traffic would precede its job, or exceed the link's speed.
        if numbers[0] == segment.first:
            elapsed[0] = offset + numbers[0] * interval
        if numbers[-1] == segment.last - 1:
            elapsed[-1] = offset + numbers[-1] * interval
        noises = [noise[~number & _NOISE_MASK] for number in numbers]
        self._take_cgroups(segment.jobs, columns, [begin + number * interval for number in numbers], noises)
        columns.time += [reported + number * interval for number in numbers]
        self._take_counters(segment, elapsed, columns)
        idle = self.node.idle_memory_bytes
        level = segment.memory_bytes / 1024
        swing = MEMORY_NOISE * (segment.memory_bytes - idle) / 1024 + _IDLE_NOISE_KIB
        # A different part of the table from the jitter's: the two are independent.
        columns.memory_used_bytes += [int(level + swing * noise[~number & _NOISE_MASK]) * 1024 for number in numbers]

    def _take_cgroups(
        self, jobs: Active, columns: NodeColumns, times: Sequence[float], noises: Sequence[float]
    ) -> None:
        """Return the values of the jobs' cgroups at the true ``times`` of the readings added to ``columns`` next."""
        if not self._plan.cgroups:
            return
        for run, place in jobs:
            uses = columns.jobs.setdefault(run.job.id, [])
            cache = int(place.memory_bytes * CACHE_SHARE)
            for index, (time, noise) in enumerate(zip(times, noises, strict=True), len(columns.time)):
                used = int(place.memory_bytes * (1 + MEMORY_NOISE * noise))
                cpu_s = round(_cpu_rate(run, place) * (time - run.start), 6)
                uses.append((index, JobUsage(run.job.id, cpu_s, used, 0, cache, used + cache, used + cache)))

    def _take_counters(self, segment: Segment, elapsed: list[float], columns: NodeColumns) -> None:
        for position, interface in enumerate(self.node.interfaces):
            (count_in, count_out), (rate_in, rate_out) = segment.counters[position], segment.rates[position]
            # InfiniBand counts words of four bytes, so the lowest two bits are never set.
            mask = 2**64 - 4 if interface.kind == "infiniband" else 2**interface.width_bits - 1
            columns.bytes_in[position] += [int(count_in + rate_in * x) & mask for x in elapsed]
            columns.bytes_out[position] += [int(count_out + rate_out * x) & mask for x in elapsed]
        ticks, per_s = segment.cpu_s * 100, segment.cpu_rate * 100
        columns.cpu_busy_s += [int(ticks + per_s * x) / 100 for x in elapsed]
