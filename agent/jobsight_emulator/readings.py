"""The readings of one node: what its agent would have read at each moment."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

from jobsight_emulator.plan import Plan
from jobsight_emulator.segments import Segment, first_reading, reading_number
from jobsight_emulator.site import Node

# A table of noise in [-1, 1], looked up by the number of the reading: cheap and the same however it is sliced.
_NOISE_BITS = 12
_NOISE_MASK = 2**_NOISE_BITS - 1
# A job's memory breathes by this share, traffic comes early or late by this share of an interval.
MEMORY_NOISE = 0.002
_TRAFFIC_JITTER = 0.01
_IDLE_NOISE_KIB = 300.0
# Hooks that run in the same second take their readings one after the other.
_HOOK_STEP_S = 0.001


@dataclass(slots=True)
class Columns:
    """Consecutive readings of one boot, columnar as on the wire; ``bytes_in`` and ``bytes_out`` per interface.

    ``lost`` counts regular readings dropped on purpose since the node's beginning.
    """

    boot_id: str
    time: list[float]
    bytes_in: list[list[int]]
    bytes_out: list[list[int]]
    memory_used_bytes: list[int]
    cpu_busy_s: list[float]
    marks: list[tuple[int, str, str]] = field(default_factory=list)
    lost: int = 0

    def __len__(self) -> int:
        return len(self.time)

    def part(self, begin: int, end: int) -> Columns:
        """The readings from position ``begin`` until ``end``."""
        return Columns(
            self.boot_id,
            self.time[begin:end],
            [column[begin:end] for column in self.bytes_in],
            [column[begin:end] for column in self.bytes_out],
            self.memory_used_bytes[begin:end],
            self.cpu_busy_s[begin:end],
            [(index - begin, job, event) for index, job, event in self.marks if begin <= index < end],
            self.lost,
        )


class NodeReader:
    """Reads one emulated node as time goes by. ``lost`` counts the regular readings dropped on purpose."""

    def __init__(self, node: Node, segments: list[Segment], plan: Plan) -> None:
        self.node = node
        self._segments = segments
        self._plan = plan
        rng = plan.rng("readings", node.name)
        self._boot_ids = [_boot_id(rng) for _ in range(1 + len(node.outages))]
        self._noise = [rng.uniform(-1.0, 1.0) for _ in range(2**_NOISE_BITS)]
        self._lost = frozenset(node.lost)
        self.lost = 0
        self._current = 0
        self._hooks_done = False
        self._next = 0

    def advance(self, until: float) -> list[Columns]:
        """All readings before ``until`` that were not yet given, one ``Columns`` for each boot."""
        number = reading_number(self.node, self._plan, until)
        given: list[Columns] = []
        while self._current < len(self._segments):
            segment = self._segments[self._current]
            if segment.start >= until:
                break
            boot_id = self._boot_ids[segment.boot]
            if not given or given[-1].boot_id != boot_id:
                width = len(self.node.interfaces)
                given.append(Columns(boot_id, [], [[] for _ in range(width)], [[] for _ in range(width)], [], []))
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

    def _take_hooks(self, segment: Segment, columns: Columns) -> None:
        for step, (job, event) in enumerate(segment.hooks):
            elapsed = step * _HOOK_STEP_S
            columns.marks.append((len(columns.time), job, event))
            columns.time.append(round(segment.start + self.node.skew_s + elapsed, 3))
            self._take_counters(segment, [elapsed], columns)
            columns.memory_used_bytes.append(int(segment.hook_memory_bytes / 1024) * 1024)

    def _take_regular(self, segment: Segment, first: int, last: int, columns: Columns) -> None:
        """Regular readings ``first`` to ``last`` (exclusive) of ``segment``."""
        numbers = [number for number in range(first, last) if number not in self._lost]
        self.lost += last - first - len(numbers)
        columns.lost = self.lost
        if not numbers:
            return
        interval, noise = self._plan.interval_s, self._noise
        begin = first_reading(self.node, self._plan)
        reported = begin + self.node.skew_s
        columns.time += [reported + number * interval for number in numbers]
        offset, jitter = begin - segment.start, _TRAFFIC_JITTER * interval
        elapsed = [offset + number * interval + jitter * noise[number & _NOISE_MASK] for number in numbers]
        # No jitter beside an event: traffic would be seen before its job, or faster than the link.
        if numbers[0] == segment.first:
            elapsed[0] = offset + numbers[0] * interval
        if numbers[-1] == segment.last - 1:
            elapsed[-1] = offset + numbers[-1] * interval
        self._take_counters(segment, elapsed, columns)
        idle = self.node.idle_memory_bytes
        level = segment.memory_bytes / 1024
        swing = MEMORY_NOISE * (segment.memory_bytes - idle) / 1024 + _IDLE_NOISE_KIB
        # Another part of the table than the jitter's, so that the two have nothing to do with each other.
        columns.memory_used_bytes += [int(level + swing * noise[~number & _NOISE_MASK]) * 1024 for number in numbers]

    def _take_counters(self, segment: Segment, elapsed: list[float], columns: Columns) -> None:
        for position, interface in enumerate(self.node.interfaces):
            (count_in, count_out), (rate_in, rate_out) = segment.counters[position], segment.rates[position]
            # InfiniBand counts words of four bytes, so the lowest two bits are never set.
            mask = 2**64 - 4 if interface.kind == "infiniband" else 2**interface.width_bits - 1
            columns.bytes_in[position] += [int(count_in + rate_in * x) & mask for x in elapsed]
            columns.bytes_out[position] += [int(count_out + rate_out * x) & mask for x in elapsed]
        ticks, per_s = segment.cpu_s * 100, segment.cpu_rate * 100
        columns.cpu_busy_s += [int(ticks + per_s * x) / 100 for x in elapsed]


def _boot_id(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))
