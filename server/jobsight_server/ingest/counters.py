"""Corrects raw counters for wraps and resets into cumulative columns (docs/use/definitions.md, Counters).

A node's cumulative columns rise only by known traffic and use; ``gap_s`` sums the unknown seconds (a reboot, a
counter set back, an interface that appeared or disappeared). The difference of two readings is then the traffic between
them, and the difference of their ``gap_s`` the unknown time.

Where the clock was set between two readings, as the time since the boot shows, their interval is unknown: its ends are
on two clocks.

A batch's columns count from its first reading, modulo 2**62 (``Totals``). Its ``link`` is the difference between the
counters before it and its first reading. Only the link depends on other batches, so a late batch changes one link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from jobsight_server.ingest.wire import INFINIBAND, Batch, BatchInterface
from jobsight_server.storage.sample_columns import Totals


class CounterState(Totals, kw_only=True, array_like=True):
    """The counters of a node after one reading, with totals since the first reading of its last row.

    ``raw`` holds per interface the raw counters in and out and the time of their reading. ``raw_cpu`` was read at
    ``raw_cpu_time``, or at ``time`` where that is None. ``boottime_s`` is the time since the boot, if it was sent.
    """

    boot_id: str
    time: float
    raw_cpu: float | None = None
    raw: dict[str, tuple[int, int, float]] = msgspec.field(default_factory=dict)
    raw_cpu_time: float | None = None
    boottime_s: float | None = None


def dump_state(state: CounterState) -> str:
    """Return ``state`` as JSON text."""
    return msgspec.json.encode(state).decode()


_state_decoder = msgspec.json.Decoder(CounterState)


def load_state(text: str, time: float) -> CounterState:
    """Parse the output of ``dump_state``.

    Release 0.1 could store one that cannot be parsed. The node then continues without counters at ``time``, its last
    reading: as after a reboot, the interval has no value.
    """
    try:
        return _state_decoder.decode(text)
    except msgspec.DecodeError:
        return CounterState(boot_id="", time=time)


class _End(Struct, array_like=True):
    """A state, without what its row has. ``raw``: of each interface, in and out, and the time if that is another."""

    raw_cpu: float | None
    raw_cpu_time: float | None
    boottime_s: float | None
    raw: list[list[int | float] | None]
    totals: Totals | None


_ends_encoder = msgspec.msgpack.Encoder()
_ends_decoder = msgspec.msgpack.Decoder(tuple[_End, _End])


def dump_ends(first: CounterState, last: CounterState, interfaces: Sequence[BatchInterface]) -> bytes:
    """Return the counters after the first and the last reading of a row as bytes."""
    return _ends_encoder.encode((_end(first, interfaces, None), _end(last, interfaces, totals_of(last))))


def _end(state: CounterState, interfaces: Sequence[BatchInterface], totals: Totals | None) -> _End:
    found = [state.raw.get(interface.name) for interface in interfaces]
    raw = [one and [*(one[:2] if one[2] == state.time else one)] for one in found]
    return _End(state.raw_cpu, state.raw_cpu_time, state.boottime_s, raw, totals)


def load_ends(
    packed: bytes, boot_id: str, times: tuple[float, float], interfaces: Sequence[BatchInterface]
) -> tuple[CounterState, CounterState]:
    """Restore the two states, given what else is stored of the row."""
    first, last = (
        CounterState(
            *astuple(end.totals or Totals()),
            boot_id=boot_id,
            time=time,
            raw_cpu=end.raw_cpu,
            raw={
                interface.name: (one[0], one[1], one[2] if len(one) > 2 else time)  # type: ignore[misc]
                for interface, one in zip(interfaces, end.raw, strict=True)
                if one
            },
            raw_cpu_time=end.raw_cpu_time,
            boottime_s=end.boottime_s,
        )
        for end, time in zip(_ends_decoder.decode(packed), times, strict=True)
    )
    return first, last


def totals_of(state: CounterState) -> Totals:
    """Return the totals alone."""
    return Totals(state.net_in, state.net_out, state.cpu, state.gap, state.ib_in, state.ib_out)


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


@dataclass(slots=True)
class Corrected:
    """A batch's readings as columns in the order of ``NAMES``, None for one that says nothing; the counts of events.

    Totals count from the first reading, in ``first`` and ``last`` too; ``link`` leads from the counters before to it.
    Columns of InfiniBand and Omni-Path are None on a node without.
    """

    columns: list[Sequence[Any] | None]
    link: Totals
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
    """Return ``batch`` corrected, continued from ``before`` (None: the node's first batch)."""
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
    raw = [before.raw[interface.name] for interface in batch.interfaces]
    to_in, net_in = _risen(batch.bytes_in, [last[0] for last in raw])
    to_out, net_out = _risen(batch.bytes_out, [last[1] for last in raw])
    ports = [number for number, interface in enumerate(batch.interfaces) if interface.kind in INFINIBAND]
    to_ib_in, ib_in = _risen([batch.bytes_in[port] for port in ports], [raw[port][0] for port in ports])
    to_ib_out, ib_out = _risen([batch.bytes_out[port] for port in ports], [raw[port][1] for port in ports])
    begun, last_cpu = batch.cpu_busy_s[0], before.raw_cpu
    assert begun is not None
    assert last_cpu is not None
    busy = [seconds - begun for seconds in batch.cpu_busy_s if seconds is not None]
    last = Totals(net_in[-1], net_out[-1], busy[-1], 0.0, *((ib_in[-1], ib_out[-1]) if ports else ()))
    return Corrected(
        [batch.time, net_in, net_out, busy, batch.memory_used_bytes, None, ib_in or None, ib_out or None],
        totals_of(before) + Totals(to_in, to_out, begun - last_cpu, 0.0, to_ib_in, to_ib_out),
        _state_at(batch, 0, Totals()),
        _state_at(batch, -1, last),
    )


def _risen(columns: Sequence[Sequence[int | None]], before: Sequence[int]) -> tuple[int, list[int]]:
    """Return the rise of the columns' sum from ``before`` to the first reading, and from this to each."""
    if not columns:
        return 0, []
    sums = [*map(sum, zip(*columns, strict=True))]
    return sums[0] - sum(before), [total - sums[0] for total in sums]


def _state_at(batch: Batch, index: int, totals: Totals) -> CounterState:
    time = batch.time[index]
    raw = {
        interface.name: (column_in[index], column_out[index], time)
        for interface, column_in, column_out in zip(batch.interfaces, batch.bytes_in, batch.bytes_out, strict=True)
    }
    return CounterState(
        *astuple(totals),
        boot_id=batch.boot_id,
        time=time,
        raw_cpu=batch.cpu_busy_s[index],
        raw=raw,  # type: ignore[arg-type]
        boottime_s=batch.boottime_s[index] if batch.boottime_s else None,
    )


def _correct_each(batch: Batch, before: CounterState | None, assumed_speed_bps: float) -> Corrected:
    """Correct a batch in the general case, reading by reading."""
    infiniband = any(interface.kind in INFINIBAND for interface in batch.interfaces)
    start = CounterState(boot_id=batch.boot_id, time=batch.time[0])
    result = Corrected([], Totals(), start, start)
    state = before
    rows = []
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
        if index == 0:
            result.link = totals_of(state)
            result.first = state = state - result.link
        rows.append(
            (
                time,
                state.net_in if step.known else None,
                state.net_out if step.known else None,
                None if busy is None else state.cpu,
                memory,
                state.gap,
                state.ib_in if step.known else None,
                state.ib_out if step.known else None,
            )
        )
    assert state is not None
    result.last = state
    *columns, ib_in, ib_out = zip(*rows, strict=True)
    result.columns = [*columns, *((ib_in, ib_out) if infiniband else (None, None))]
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
