"""Corrects raw counters for wraps and resets into cumulative columns (docs/use/definitions.md, Counters).

A node's cumulative columns rise only by known traffic and use; ``gap_s`` sums the unknown seconds (a reboot, a
counter set back, an interface that appeared or disappeared). The difference of two rows is then the traffic between
them, and the difference of their ``gap_s`` the unknown time.

Where the clock was set between two readings, as the time since the boot shows, their interval is unknown: its ends are
on two clocks.

Totals of bytes are kept modulo 2**62 (``Totals``), so that every sequence of readings fits the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobsight_server.ingest.wire import INFINIBAND, Batch, BatchInterface
from jobsight_server.storage.sample_columns import MODULUS, Totals


class CounterState(Totals, kw_only=True, omit_defaults=True):
    """The counters of a node after one reading.

    ``raw`` holds per interface the raw counters in and out and the time of their reading. ``raw_cpu`` was read at
    ``raw_cpu_time``, or at ``time`` where that is None. ``boottime_s`` is the time since the boot, if it was sent.
    """

    boot_id: str
    time: float
    raw_cpu: float | None = None
    raw: dict[str, tuple[int, int, float]] = msgspec.field(default_factory=dict)
    raw_cpu_time: float | None = None
    boottime_s: float | None = None


_state_decoder = msgspec.json.Decoder(CounterState)


def dump_state(state: CounterState) -> str:
    """Return ``state`` as JSON text."""
    return msgspec.json.encode(state).decode()


def load_state(text: str, time: float) -> CounterState:
    """Parse the output of ``dump_state``.

    Release 0.1 could store one that cannot be parsed (a busy time beyond the range of a double). The node then
    continues without counters at ``time``, its last reading: as after a reboot, the interval has no value.
    """
    try:
        return _state_decoder.decode(text)
    except msgspec.DecodeError:
        return CounterState(boot_id="", time=time)


class BatchEnds(Struct):
    """The counters after the first and last reading of a batch, and the interfaces they belong to."""

    first: CounterState
    last: CounterState
    interfaces: list[BatchInterface]

    def plus(self, amounts: Totals) -> BatchEnds:
        """Return the ends with ``amounts`` added to both."""
        return BatchEnds(self.first + amounts, self.last + amounts, self.interfaces)


_ends_decoder = msgspec.json.Decoder(BatchEnds)


def dump_ends(ends: BatchEnds) -> str:
    """Return ``ends`` as JSON text."""
    return msgspec.json.encode(ends).decode()


def load_ends(text: str) -> BatchEnds | None:
    """Parse the output of ``dump_ends``; None if release 0.1 stored one that cannot be parsed."""
    try:
        return _ends_decoder.decode(text)
    except msgspec.DecodeError:
        return None


# No interface moves more in a second, or between two readings less than a second apart (8.8 Tbit/s): a larger
# jump is a damaged counter, not traffic.
_LARGEST_BYTES_PER_S = 2**40
# Ten thousand processors busy for eleven days: a larger jump of the busy time is a damaged counter.
_LARGEST_CPU_STEP_S = 1e10
# A clock slewed between two readings must not rule out a wrap.
_CLOCK_SLACK = 1.1
# A clock that differs from the time since the boot by more than this, and than what slewing explains, was set.
_CLOCK_STEP_S = 1.0
# Some kernels let the busy time of /proc/stat step back by a tick; that is not a reset.
_CPU_STEP_BACK_S = 0.5

SampleRow = tuple[float, int | None, int | None, float | None, int | None, float, int | None, int | None]


@dataclass(slots=True)
class Corrected:
    """A batch's rows ``(time, net_in, net_out, cpu_busy, memory_used, gap, ib_in, ib_out)``, and the counts of events.

    ``ib_in`` and ``ib_out`` are None on a node without InfiniBand and Omni-Path.
    """

    rows: list[SampleRow]
    first: CounterState
    last: CounterState
    wraps: int = 0
    resets: int = 0
    boots: int = 0
    missing: int = 0


@dataclass(slots=True)
class _Step:
    """The increments from one reading."""

    moved: Totals = field(default_factory=Totals)
    known: bool = True
    unknown_since: float | None = None
    raw: dict[str, tuple[int, int, float]] = field(default_factory=dict)


def correct(batch: Batch, before: CounterState | None, assumed_speed_bps: float) -> Corrected:
    """Return the rows of ``batch``, continued from ``before`` (None: the node's first batch)."""
    if before is not None and before.boot_id == batch.boot_id and _only_rises(batch, before):
        return _correct_rising(batch, before)
    return _correct_each(batch, before, assumed_speed_bps)


def _only_rises(batch: Batch, before: CounterState) -> bool:
    """Return whether there is no wrap, reset or missing value, and the same interfaces as before: true of nearly all
    batches."""
    if not batch.interfaces or before.raw_cpu is None or len(batch.interfaces) != len(before.raw):
        return False
    if any(map(_is_set, *_clocks(batch, before))):
        return False
    for interface, column_in, column_out in zip(batch.interfaces, batch.bytes_in, batch.bytes_out, strict=True):
        raw = before.raw.get(interface.name)
        if raw is None or raw[2] != before.time:
            return False
        # Below the limit of a single step, however short; larger ones are checked one by one.
        if not (_rises(raw[0], column_in, _LARGEST_BYTES_PER_S) and _rises(raw[1], column_out, _LARGEST_BYTES_PER_S)):
            return False
    return _rises(before.raw_cpu, batch.cpu_busy_s, _LARGEST_CPU_STEP_S) and None not in batch.memory_used_bytes


def _clocks(batch: Batch, before: CounterState) -> tuple[Sequence[float], Sequence[float | None]]:
    """Return by how much the clock and the time since the boot moved at each reading; None where it is unknown."""
    boottimes = [before.boottime_s, *(batch.boottime_s or [None] * len(batch.time))]
    passed = [None if a is None or b is None else b - a for a, b in pairwise(boottimes)]
    return [b - a for a, b in pairwise([before.time, *batch.time])], passed


def _is_set(elapsed_s: float, passed_s: float | None) -> bool:
    """Return whether the clock was set: ``elapsed_s`` by its times, ``passed_s`` by the time since the boot."""
    return passed_s is not None and abs(elapsed_s - passed_s) > _CLOCK_STEP_S + (_CLOCK_SLACK - 1) * abs(passed_s)


def _rises(before: float, column: list[int | None] | list[float | None], at_most: float) -> bool:
    try:
        # Sorting a sorted list takes a third of the time of comparing each with the next.
        return before <= column[0] and column[-1] - before < at_most and sorted(column) == column  # type: ignore
    except TypeError:  # None, a missing value, does not compare
        return False


def _correct_rising(batch: Batch, before: CounterState) -> Corrected:
    net_in = _continued(batch.bytes_in, before.net_in - sum(raw[0] for raw in before.raw.values()))
    net_out = _continued(batch.bytes_out, before.net_out - sum(raw[1] for raw in before.raw.values()))
    ib_in, ib_out = _rising_infiniband(batch, before)
    assert before.raw_cpu is not None
    offset = before.cpu - before.raw_cpu
    cpu = [busy + offset for busy in batch.cpu_busy_s if busy is not None]
    columns = (batch.time, net_in, net_out, cpu, batch.memory_used_bytes, [before.gap] * len(cpu), ib_in, ib_out)
    rows: list[SampleRow] = list(zip(*columns, strict=True))
    return Corrected(rows, _state_at(batch, rows, 0, before), _state_at(batch, rows, -1, before))


def _continued(columns: Sequence[Sequence[int | None]], offset: int) -> list[int]:
    """Return the sums over rising columns, plus ``offset``."""
    totals = [total + offset for total in map(sum, zip(*columns, strict=True))]
    return totals if totals[-1] < MODULUS else [total % MODULUS for total in totals]


def _rising_infiniband(batch: Batch, before: CounterState) -> tuple[list[int | None], list[int | None]]:
    """Return the totals in and out of InfiniBand and Omni-Path alone."""
    ports = [position for position, interface in enumerate(batch.interfaces) if interface.kind in INFINIBAND]
    if not ports:
        nothing: list[int | None] = [None] * len(batch.time)
        return nothing, nothing
    raw = [before.raw[batch.interfaces[port].name] for port in ports]
    received = _continued([batch.bytes_in[port] for port in ports], before.ib_in - sum(last[0] for last in raw))
    sent = _continued([batch.bytes_out[port] for port in ports], before.ib_out - sum(last[1] for last in raw))
    return [*received], [*sent]


def _state_at(batch: Batch, rows: list[SampleRow], index: int, before: CounterState) -> CounterState:
    time, net_in, net_out, cpu, _, gap, ib_in, ib_out = rows[index]
    assert net_in is not None
    assert net_out is not None
    assert cpu is not None
    raw = {
        interface.name: (column_in[index], column_out[index], time)
        for interface, column_in, column_out in zip(batch.interfaces, batch.bytes_in, batch.bytes_out, strict=True)
    }
    busy = batch.cpu_busy_s[index]
    infiniband = (before.ib_in, before.ib_out) if ib_in is None or ib_out is None else (ib_in, ib_out)
    totals = (net_in, net_out, cpu, gap, *infiniband)
    boottime_s = batch.boottime_s and batch.boottime_s[index]
    state = CounterState(*totals, boot_id=batch.boot_id, time=time, raw_cpu=busy, raw=raw)  # type: ignore[arg-type]
    return replace(state, boottime_s=boottime_s)


def _correct_each(batch: Batch, before: CounterState | None, assumed_speed_bps: float) -> Corrected:
    """Correct a batch in the general case, reading by reading."""
    infiniband = any(interface.kind in INFINIBAND for interface in batch.interfaces)
    start = CounterState(boot_id=batch.boot_id, time=batch.time[0])
    result = Corrected([], start, start)
    state = before
    clocks = _clocks(batch, start if before is None else before)
    for index, (time, elapsed_s, passed_s) in enumerate(zip(batch.time, *clocks, strict=True)):
        first_ever = state is None
        if state is None:
            state = start
        rebooted = state.boot_id != batch.boot_id
        step = _network_step(batch, index, None if rebooted or first_ever else state, assumed_speed_bps, result)
        busy = batch.cpu_busy_s[index]
        cpu = _cpu_step(busy, None if rebooted else state.raw_cpu, result)
        raw_cpu_time = state.time if state.raw_cpu_time is None else state.raw_cpu_time
        if rebooted:
            result.boots += 1
            gap = time - state.time
        elif not first_ever and _is_set(elapsed_s, passed_s):
            result.resets += 1
            gap = time - state.time
        else:
            gap = time - min(step.unknown_since or time, raw_cpu_time if cpu is None else time)
            result.resets += step.unknown_since is not None
        memory = batch.memory_used_bytes[index]
        result.missing += memory is None
        moved = Totals() if gap else step.moved
        moved.cpu, moved.gap = cpu or 0.0, gap
        state = replace(
            state + moved,
            boot_id=batch.boot_id,
            time=time,
            raw_cpu=state.raw_cpu if busy is None and not rebooted else busy,
            raw=step.raw,
            raw_cpu_time=raw_cpu_time if busy is None and not rebooted else None,
            boottime_s=batch.boottime_s and batch.boottime_s[index],
        )
        result.rows.append(
            (
                time,
                state.net_in if step.known else None,
                state.net_out if step.known else None,
                None if busy is None else state.cpu,
                memory,
                state.gap,
                state.ib_in if step.known and infiniband else None,
                state.ib_out if step.known and infiniband else None,
            )
        )
        if index == 0:
            result.first = state
    assert state is not None
    result.last = state
    return result


def _network_step(
    batch: Batch, index: int, before: CounterState | None, assumed_speed_bps: float, result: Corrected
) -> _Step:
    """Return the interfaces' traffic since ``before`` (None: no earlier reading, after a boot)."""
    time = batch.time[index]
    step = _Step(known=bool(batch.interfaces))
    for interface, column_in, column_out in zip(batch.interfaces, batch.bytes_in, batch.bytes_out, strict=True):
        now_in, now_out = column_in[index], column_out[index]
        last = before.raw.get(interface.name) if before else None
        if now_in is None or now_out is None:
            step.known = False
            result.missing += 1
            if last is not None:
                step.raw[interface.name] = last
            continue
        step.raw[interface.name] = (now_in, now_out, time)
        if last is None:
            if before:  # a new interface: its traffic since the last reading is unknown
                step.unknown_since = min(step.unknown_since or time, before.time)
            continue
        elapsed_s = time - last[2]
        at_most = _LARGEST_BYTES_PER_S * max(1.0, elapsed_s)
        possible = min(at_most, (interface.speed_bps or assumed_speed_bps) * elapsed_s / 8 * _CLOCK_SLACK)
        delta_in, wraps_in = _delta(last[0], now_in, interface, possible, at_most)
        delta_out, wraps_out = _delta(last[1], now_out, interface, possible, at_most)
        if delta_in is None or delta_out is None:
            step.unknown_since = min(step.unknown_since or time, last[2])
            continue
        result.wraps += wraps_in + wraps_out
        step.moved.net_in += delta_in
        step.moved.net_out += delta_out
        if interface.kind in INFINIBAND:
            step.moved.ib_in += delta_in
            step.moved.ib_out += delta_out
    if before:
        # A removed interface: its traffic since its last reading is unknown.
        for name in before.raw.keys() - {interface.name for interface in batch.interfaces}:
            step.unknown_since = min(step.unknown_since or time, before.raw[name][2])
    return step


def _delta(
    last: int, now: int, interface: BatchInterface, possible_bytes: float, at_most: float
) -> tuple[int | None, int]:
    """Return the bytes between two readings and the number of wraps; None for a counter set back or damaged.

    ``possible_bytes``: the link's capacity, the limit for a wrap. ``at_most``: more than any link can carry.
    """
    delta = now - last
    if 0 <= delta < at_most:
        return delta, 0
    if interface.width_bits == 32 and delta < 0:
        words = 4 if interface.kind in INFINIBAND else 1
        unwrapped = delta + 2**32 * words
        if 0 <= unwrapped <= possible_bytes:
            return unwrapped, 1
    return None, 0


def _cpu_step(now: float | None, last: float | None, result: Corrected) -> float | None:
    """Return the CPU seconds to add; None if the counter was set back or damaged: the use since ``last`` is unknown."""
    if now is None:
        result.missing += 1
        return 0.0
    if last is None:
        return 0.0
    if 0 <= now - last < _LARGEST_CPU_STEP_S:
        return now - last
    if 0 < last - now <= _CPU_STEP_BACK_S:
        return 0.0
    result.resets += 1
    return None
