"""The life of one node as segments between events, in each of which all its rates are constant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from jobsight_emulator.placement import EmulatedRun, Place
from jobsight_emulator.plan import SitePlan
from jobsight_emulator.site import EmulatedNode

# A machine's totals by the time its agent starts after a boot.
_BOOT_CPU_S = 18.0
_BOOT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class JobOnNode:
    """A job on a node: what its cgroup shows. ``cpu_rate`` in CPU seconds a second since ``start``."""

    job: str
    start: float
    cpu_rate: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Segment:
    """From ``start`` until ``end`` (true time). Counters are (in, out) per interface, without wraps.

    ``hooks`` are (job id, event) of the readings that hooks take at ``start``: after the jobs that end there have
    ended and before those that start have started, when the node holds ``hook_memory_bytes``.
    ``jobs`` are those of the segment, ``hook_jobs`` those of the one before, whose cgroups the hooks still find.
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
    jobs: tuple[JobOnNode, ...]
    hook_jobs: tuple[JobOnNode, ...]


@dataclass(slots=True)
class _Event:
    ends: list[tuple[EmulatedRun, Place]] = field(default_factory=list)
    starts: list[tuple[EmulatedRun, Place]] = field(default_factory=list)
    hooks: list[tuple[str, str]] = field(default_factory=list)
    up: int | None = None


def first_reading(node: EmulatedNode, plan: SitePlan) -> float:
    """True time of the node's regular reading number 0."""
    return plan.start + node.phase_s


def reading_number(node: EmulatedNode, plan: SitePlan, time: float) -> int:
    """Number of the first regular reading at or after ``time``."""
    return max(0, math.ceil((time - first_reading(node, plan)) / plan.interval_s))


def make_segments(node: EmulatedNode, position: int, runs: Iterable[EmulatedRun], plan: SitePlan) -> list[Segment]:
    """The segments of ``node``, which stands at ``position`` in its cluster, with none while it is down."""
    events = _events(node, position, runs)
    events.setdefault(plan.start, _Event())
    times = sorted(events)
    counters = [(float(first_in), float(first_out)) for first_in, first_out in node.first_counters]
    cpu_s, boot = node.first_cpu_s, 0
    active: dict[tuple[str, int], tuple[EmulatedRun, Place]] = {}
    segments = []
    for time, until in zip(times, [*times[1:], plan.end], strict=True):
        event = events[time]
        before = _jobs(active)
        for run, _ in event.ends:
            del active[run.job.id, run.start]
        begin: float = time
        if event.up is not None:
            assert not active
            boot += 1
            begin = event.up
            counters = [(float(_BOOT_BYTES), float(_BOOT_BYTES // 2)) for _ in counters]
            cpu_s = _BOOT_CPU_S
        hook_memory = _memory(node, active)
        for run, place in event.starts:
            active[run.job.id, run.start] = (run, place)
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
                jobs=_jobs(active),
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
                end.ends.append((run, place))
                if run.killed_on != position and (position, "end") not in run.lost_marks:
                    end.hooks.insert(0, (run.job.id, "end"))
    for outage in node.outages:
        events.setdefault(outage.down, _Event()).up = outage.up
    return events


def _jobs(active: dict[tuple[str, int], tuple[EmulatedRun, Place]]) -> tuple[JobOnNode, ...]:
    return tuple(
        JobOnNode(run.job.id, run.start, run.job.demand.cpu_utilisation * len(place.slots), place.memory_bytes)
        for run, place in active.values()
    )


def _memory(node: EmulatedNode, active: dict[tuple[str, int], tuple[EmulatedRun, Place]]) -> float:
    return node.idle_memory_bytes + sum(place.memory_bytes for _, place in active.values())


def _rates(
    node: EmulatedNode, active: dict[tuple[str, int], tuple[EmulatedRun, Place]]
) -> tuple[tuple[tuple[float, float], ...], float]:
    received = node.background_in_bytes_s + sum(place.in_bytes_s for _, place in active.values())
    sent = node.background_out_bytes_s + sum(place.out_bytes_s for _, place in active.values())
    busy = node.idle_cpu + sum(run.job.demand.cpu_utilisation * len(place.slots) for run, place in active.values())
    return tuple((received * share, sent * share) for share in node.traffic_shares), min(busy, 16.0)


def wraps(node: EmulatedNode, segments: Iterable[Segment]) -> int:
    """How often a 32-bit counter of the node wraps to zero."""
    total = 0
    for segment in segments:
        length = segment.end - segment.start
        for interface, counters, rates in zip(node.interfaces, segment.counters, segment.rates, strict=True):
            if interface.width_bits == 32:
                for counter, rate in zip(counters, rates, strict=True):
                    total += int(counter + rate * length) // 2**32 - int(counter) // 2**32
    return total
