"""Corrects raw counters for wraps and resets into cumulative columns (docs/use/definitions.md, Counters).

A node's cumulative columns rise only by known traffic and use; ``gap_s`` sums the unknown seconds (a reboot, a counter
set back, an interface that appeared or disappeared). The difference of two readings is then the traffic between them,
and the difference of their ``gap_s`` the unknown time.

Where the clock was set between two readings, as the time since the boot shows, their interval is unknown: its ends are
on two clocks. A reading is corrected by the readings before it, in order of time, whatever the order of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from operator import itemgetter

import numpy as np

from jobsight_predictor.arrays import Booleans
from jobsight_server.storage.readings.sample_columns import MASK, NOTHING, UNKNOWN, Floats, Integers, SampleColumns
from jobsight_server.storage.readings.sent import INFINIBAND, SentRow, interfaces_of, unpack

LARGEST_BYTES_PER_S = 2**40
"""No interface moves more in a second, or between two readings less than a second apart (8.8 Tbit/s): a larger jump is
a damaged counter, not traffic."""
LARGEST_CPU_STEP_S = 1e10
"""Ten thousand processors busy for eleven days: a larger jump of the busy time is a damaged counter."""
CLOCK_STEP_S = 1.0
"""A clock that differs from the time since the boot by more than this, and than what slewing explains, was set."""
# A clock slewed between two readings must not rule out a wrap.
_CLOCK_SLACK = 1.1
# Some kernels let the busy time of /proc/stat step back by a tick; that is not a reset.
_CPU_STEP_BACK_S = 0.5

EVENTS = ("wraps", "resets", "boots", "missing")


@dataclass(frozen=True, slots=True)
class Corrected:
    """Readings in order of time, of several at one time the first; ``events``: how many of each at each reading."""

    node: Integers
    columns: SampleColumns
    events: Mapping[str, Integers]


@dataclass(slots=True)
class _Raw:
    """Readings as sent, shape (n,), and the interfaces' parts of them, shape (k, n).

    ``boot``: a number for each boot of each node. ``listed``: where the node named the interface, ``ports`` where it is
    one of InfiniBand. ``word``: bytes that a counter of 32 bits counts by, 0 for one of 64. ``speed``: bytes a second.
    """

    node: Integers
    boot: Integers
    seconds: Floats
    memory: Integers
    listed: Booleans
    ports: Booleans
    word: Integers
    speed: Floats
    counters: Integers  # in and out: shape (2, k, n)


def corrected(rows: Sequence[SentRow]) -> Corrected:
    """Return the readings of a node's rows that follow one another; totals since the first one.

    Rows of several nodes, one node after the other, give the readings of each, with the same meaning within a node.
    """
    raw = _raw(rows) if rows else None
    if raw is None or not len(raw.node):
        return Corrected(NOTHING.net_in_bytes, NOTHING, dict.fromkeys(EVENTS, NOTHING.net_in_bytes))
    return _corrected(_in_order(raw))


def _raw(rows: Sequence[SentRow]) -> _Raw:
    """Return the readings of the rows; an interface has the same place throughout a boot."""
    boots: dict[tuple[int, str], tuple[int, dict[str, int]]] = {}
    parts = []
    for (node, _, boot_id, text), some in groupby(rows, itemgetter(0, 1, 2, 3)):
        interfaces = interfaces_of(text)
        boot, places = boots.setdefault((node, boot_id), (len(boots), {}))
        own = [places.setdefault(interface.name, len(places)) for interface in interfaces]
        parts.append((node, boot, own, interfaces, *unpack([row[-1] for row in some], len(interfaces))))
    lengths = [seconds.shape[1] for *_, seconds, _ in parts]
    shape = (max(len(places) for _, places in boots.values()), sum(lengths))
    raw = _Raw(
        node=np.repeat([part[0] for part in parts], lengths),
        boot=np.repeat([part[1] for part in parts], lengths),
        seconds=np.concatenate([seconds for *_, seconds, _ in parts], axis=1),
        memory=np.concatenate([whole[0] for *_, whole in parts]),
        listed=np.zeros(shape, np.bool_),
        ports=np.zeros(shape, np.bool_),
        word=np.zeros(shape, np.int64),
        speed=np.zeros(shape),
        counters=np.full((2, *shape), UNKNOWN),
    )
    end = 0
    for (_, _, own, interfaces, _, whole), length in zip(parts, lengths, strict=True):
        begin, end = end, end + length
        for number, (place, interface) in enumerate(zip(own, interfaces, strict=True)):
            is_port = interface.kind in INFINIBAND
            raw.listed[place, begin:end] = True
            raw.ports[place, begin:end] = is_port
            raw.word[place, begin:end] = 0 if interface.width_bits == 64 else 4 if is_port else 1
            raw.speed[place, begin:end] = (interface.speed_bps or 0.0) / 8
            raw.counters[:, place, begin:end] = whole[1 + 2 * number : 3 + 2 * number]
    return raw


def _in_order(raw: _Raw) -> _Raw:
    time = raw.seconds[0]
    if np.all((time[1:] > time[:-1]) | (raw.node[1:] != raw.node[:-1])):
        return raw
    order = np.lexsort((time, raw.node))
    is_first = np.append(True, (np.diff(time[order]) > 0) | (np.diff(raw.node[order]) != 0))
    return _Raw(*(getattr(raw, field.name)[..., order[is_first]] for field in fields(raw)))


def _corrected(raw: _Raw) -> Corrected:
    time, busy, boottime, given_gap = raw.seconds
    booted = np.append(True, raw.boot[1:] != raw.boot[:-1])
    has_value = raw.listed & (raw.counters != UNKNOWN)
    is_port, is_absent = (raw.listed & raw.ports).any(axis=0), raw.memory == UNKNOWN
    moved, wraps, since = _network(raw, has_value, booted)
    is_unknown = since < time

    known = ~np.isnan(busy)
    latest = _latest(known, _starts(booted))
    before = _before(latest, booted)
    used = np.where(known & (before >= 0), busy - busy[before], 0.0)
    is_back = (used < -_CPU_STEP_BACK_S) | (used >= LARGEST_CPU_STEP_S)
    since = np.where(is_back, np.minimum(since, time[before]), since)

    elapsed, passed = np.diff(time, prepend=time[0]), np.diff(boottime, prepend=np.nan)
    is_set = ~booted & (np.abs(elapsed - passed) > CLOCK_STEP_S + (_CLOCK_SLACK - 1) * np.abs(passed))
    gap = np.where(booted | is_set, elapsed, time - since)
    gap = np.maximum(gap, np.diff(given_gap, prepend=given_gap[0]))
    is_new = np.append(True, raw.node[1:] != raw.node[:-1])
    gap[is_new] = 0.0

    totals = np.where(gap > 0, 0, moved).cumsum(axis=1) & MASK
    is_known = raw.listed.any(axis=0) & (has_value | ~raw.listed).all(axis=1)
    totals = np.where([*is_known, *(is_known & is_port)], totals, UNKNOWN)
    cpu = np.where(is_back, 0.0, np.maximum(used, 0.0)).cumsum()
    columns = SampleColumns(
        time, totals[0], totals[1], np.where(known, cpu, np.nan), np.where(is_absent, np.nan, raw.memory),
        gap.cumsum(), totals[2], totals[3],
    )  # fmt: skip
    events = {
        "wraps": wraps,
        "resets": (is_set | is_unknown).astype(np.int64) + is_back,
        "boots": (booted & ~is_new).astype(np.int64),
        "missing": (raw.listed & ~has_value.all(axis=0)).sum(axis=0) + ~known + is_absent,
    }
    return Corrected(raw.node, columns, events)


def _network(raw: _Raw, has_value: Booleans, booted: Booleans) -> tuple[Integers, Integers, Floats]:
    """Return the bytes moved up to each reading (in, out, and those of ports in and out), the wraps undone, and since
    when traffic is unknown: the reading's own time if it is known."""
    time = raw.seconds[0]
    moved, wraps, since = np.zeros((4, len(time)), np.int64), np.zeros(len(time), np.int64), time.copy()
    for way, place in np.ndindex(has_value.shape[:2]):
        known, listed = has_value[way, place], raw.listed[place]
        begins = booted | np.append(True, listed[1:] != listed[:-1])
        starts = _starts(begins)
        latest = _latest(known, starts)
        before = _before(latest, begins)
        follows = known & (before >= 0)
        passed = time - time[before]
        at_most = LARGEST_BYTES_PER_S * np.maximum(1.0, passed)
        possible = np.minimum(at_most, raw.speed[place] * passed * _CLOCK_SLACK)
        now = raw.counters[way, place]
        rise = now - now[before]  # modulo 2**64
        is_rising = (now.view(np.uint64) >= now[before].view(np.uint64)) & (rise.view(np.uint64) < at_most)
        unwrapped = rise + (raw.word[place] << 32)
        is_wrap = ~is_rising & (rise < 0) & (raw.word[place] > 0) & (unwrapped >= 0) & (unwrapped <= possible)
        fits = follows & (is_rising | is_wrap)
        step = np.where(fits, np.where(is_wrap, unwrapped, rise) & MASK, 0)
        moved[way] += step
        moved[way + 2] += np.where(raw.ports[place], step, 0)
        wraps += fits & is_wrap
        since = np.where(follows & ~fits, np.minimum(since, time[before]), since)
        # One that is new is unknown since the reading before; one that is gone, since it was read last.
        at = np.flatnonzero(known & (before < 0) & ~booted[starts])
        since[at] = np.minimum(since[at], time[at - 1])
        at = np.flatnonzero(begins & ~booted & ~listed)
        at = at[latest[at - 1] >= 0]
        since[at] = np.minimum(since[at], time[latest[at - 1]])
    return moved, wraps, since


def _starts(begins: Booleans) -> Integers:
    """Return the place of the latest reading that ``begins`` something by each reading."""
    places: Integers = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    return places


def _latest(known: Booleans, starts: Integers) -> Integers:
    """Return the place of the latest known value by each reading since ``starts``; -1 if there is none."""
    latest = np.maximum.accumulate(np.where(known, np.arange(len(known)), -1))
    return np.where(latest >= starts, latest, -1)


def _before(latest: Integers, begins: Booleans) -> Integers:
    """Return the place of the latest known value before each reading."""
    return np.where(begins, -1, np.roll(latest, 1))
