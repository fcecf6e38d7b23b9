"""Readings and batches of release 0.3 become rows of ``readings``, some hours of a node at a time.

There, a reading was a row of ``samples`` with totals since the node's first one, later packed into ``sample_chunks``;
changes of totals waited in ``shifts``; ``batches`` had the counters at both ends of each. Counters are made that rise
from end to end as the totals do; ``gap_s`` stays.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from math import inf, nextafter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert

from jobsight_server.ingest.group_writer import ROW
from jobsight_server.ingest.joining import SILENCE_S
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.readings.sample_columns import (
    MASK,
    NAMES,
    TOTALS,
    UNKNOWN,
    WHOLE,
    Floats,
    Integers,
    SampleColumns,
)
from jobsight_server.storage.readings.samples import CHUNK_S
from jobsight_server.storage.readings.sent import INFINIBAND, BatchInterface, deflate, inflate
from jobsight_server.storage.schema import boots

_NEXT = {
    "samples": "SELECT min(time) FROM samples WHERE node_id = ? AND time >= ?",
    "sample_chunks": "SELECT min(first_time) FROM sample_chunks WHERE node_id = ? AND last_time >= ?",
    "batches": "SELECT min(first_time) FROM batches WHERE node_id = ? AND first_time >= ?",
}
_ROWS = f"SELECT {', '.join(NAMES)} FROM samples WHERE node_id = ? AND time >= ? AND time < ? ORDER BY time"
_CHUNKS = (
    "SELECT packed FROM sample_chunks WHERE node_id = ? AND first_time >= ? AND first_time < ? AND last_time >= ? "
    "ORDER BY first_time"
)
_SHIFTS = f"SELECT since, until, {', '.join(TOTALS)} FROM shifts WHERE node_id = ?"


class _Batch(NamedTuple):
    boot_id: str
    sequence: int
    last_sequence: int
    checksum: int
    first_time: float
    last_time: float
    received_at: float
    uptime_s: float | None
    owner_present: bool | None
    counters: str
    last_counters: str  # of the last one, where several share a row


_BATCHES = (
    (
        f"SELECT {', '.join(_Batch._fields)} FROM batches WHERE node_id = ? AND first_time >= ? "
        "AND first_time < ? ORDER BY first_time"
    )
    .replace("last_sequence", "coalesce(last_sequence, sequence)", 1)
    .replace("last_counters", "counters")
)


class _NodeCounters(msgspec.Struct):
    """A node's counters after a reading: of each interface in, out and when they were read."""

    raw_cpu: float | None = None
    raw: dict[str, tuple[int, int, float]] = {}


class _Counters(msgspec.Struct):
    first: _NodeCounters
    last: _NodeCounters
    interfaces: list[BatchInterface] = []


def convert(connection: Connection) -> None:
    """Move the rows of the old tables to today's, which are empty."""
    for (node_id,) in fetch(connection, "SELECT id FROM nodes", ()):
        _Node(connection, node_id).convert()


_ALL = BatchInterface("all", "other", 64)
_UNREAD = (0, 0, 0.0)
_UNLIMITED = 2**62


_decode = msgspec.json.Decoder(_Counters).decode


class _Node:
    def __init__(self, connection: Connection, node_id: int) -> None:
        self._connection, self._id = connection, node_id
        self._shifts = fetch(connection, _SHIFTS, (node_id,))
        self._boots: dict[tuple[str, bytes], int] = {}
        self._before: tuple[_Counters, SampleColumns] | None = None

    def convert(self) -> None:
        """Store the node's rows."""
        begin = self._next(-inf)
        while begin is not None:
            end = begin + CHUNK_S
            batches = self._batches_between(begin, end)
            end = max([end, *(nextafter(batch.last_time, inf) for batch in batches)])
            batches = _joined(self._batches_between(begin, end))
            readings = self._readings_between(begin, end)
            write_many(self._connection, ROW, [self._row(*one) for one in _by_batch(batches, readings)])
            begin = self._next(end)

    def _next(self, time: float) -> float | None:
        """Return the time from which there are readings or batches not earlier than ``time``."""
        found = (fetch(self._connection, query, (self._id, max(time, -1e18))) for query in _NEXT.values())
        return min((max(time, begin) for ((begin,),) in found if begin is not None), default=None)

    def _batches_between(self, begin: float, end: float) -> list[_Batch]:
        return [_Batch(*row) for row in fetch(self._connection, _BATCHES, (self._id, begin, end))]

    def _readings_between(self, begin: float, end: float) -> SampleColumns:
        parts = [SampleColumns.of_rows(fetch(self._connection, _ROWS, (self._id, begin, end)))]
        asked = (self._id, begin - CHUNK_S, end, begin)
        packed = [_unpacked(row) for (row,) in fetch(self._connection, _CHUNKS, asked)]
        # If two readings have the same time, the chunk's counts.
        parts = [*(columns[columns.between(begin, end)] for columns in packed), *parts]
        found = SampleColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))
        found = found[np.unique(found.time, return_index=True)[1]]
        for since, until, *amounts in self._shifts:
            _add(found[found.between(since, until)], amounts)
        return found

    def _row(self, batch: _Batch, readings: SampleColumns) -> tuple[Any, ...]:
        try:
            ends, to = (_decode(counters) for counters in (batch.counters, batch.last_counters))
            ends.last = to.last
        except msgspec.MsgspecError:
            ends = _Counters(_NodeCounters(), _NodeCounters())
        start = readings
        if not ends.last.raw and self._before:  # unknown: they go on from those of the batch before
            ends, start = self._before
        elif not ends.last.raw:
            ends.interfaces = [_ALL]
        busy, counters = _busy(readings, start, ends), _counters(readings, start, ends)
        if len(readings):
            last = zip(ends.interfaces, counters[:, -1].reshape(-1, 2).tolist(), strict=True)
            raw = {one.name: (own[0] % 2**64, own[1] % 2**64, 0.0) for one, own in last if UNKNOWN not in own}
            state = _NodeCounters(None if np.isnan(busy[-1]) else float(busy[-1]), raw)
            self._before = _Counters(state, state, ends.interfaces), readings[-1:]
        seconds = np.stack([readings.time, busy, np.full(len(busy), np.nan), readings.gap_s])
        memory = np.where(np.isnan(readings.memory_used_bytes), UNKNOWN, readings.memory_used_bytes).astype(np.int64)
        whole = np.concatenate([memory[None], counters])
        last_time = max(batch.last_time, *readings.time[-1:].tolist(), batch.first_time)
        return (
            *(self._id, batch.first_time, last_time, len(readings), batch.received_at, self._boot(batch, ends)),
            *(batch.sequence, batch.last_sequence, batch.checksum, batch.uptime_s, batch.owner_present),
            deflate(seconds, whole),
        )

    def _boot(self, batch: _Batch, ends: _Counters) -> int:
        interfaces = msgspec.json.encode(ends.interfaces)
        key = (batch.boot_id, interfaces)
        if key not in self._boots:
            values = {"node_id": self._id, "boot_id": batch.boot_id, "interfaces": interfaces}
            new = self._connection.execute(insert(boots).values(values).returning(boots.c.id))
            self._boots[key] = new.scalar_one()
        return self._boots[key]


def _joined(batches: Sequence[_Batch]) -> list[_Batch]:
    """Join those that follow one another as they are joined after a day: a row for each would take as many times
    longer. Counters of 32 bits could wrap several times between the ends of a row."""
    found: list[_Batch] = []
    for batch in batches:
        before, interfaces = found[-1] if found else batch, batch.counters.partition('"interfaces"')[2]
        if (
            before.boot_id == batch.boot_id
            and before.last_sequence + 1 == batch.sequence
            and 0.0 < batch.first_time - before.last_time <= SILENCE_S
            and batch.last_time - before.first_time <= CHUNK_S
            and before.owner_present == batch.owner_present
            and before.last_counters.endswith(interfaces)
            and "64" in interfaces
            and ":32" not in interfaces
        ):
            last = batch._replace(counters=before.counters, sequence=before.sequence, first_time=before.first_time)
            found[-1] = last._replace(received_at=max(before.received_at, batch.received_at))
        else:
            found.append(batch)
    return found


def _by_batch(batches: Sequence[_Batch], readings: SampleColumns) -> Iterator[tuple[_Batch, SampleColumns]]:
    """Yield the batches, each with the readings from its begin to that of the next; at most six hours."""
    if len(readings) and (not batches or readings.time[0] < batches[0].first_time):
        times = float(readings.time[0]), float(readings.time[-1])
        until = batches[0].first_time if batches else inf
        batches = [_Batch("", 0, 0, 0, *times, times[1], None, None, "", ""), *batches]
        batches[0] = batches[0]._replace(last_time=min(times[1], until))
    ends = [*(batch.first_time for batch in batches[1:]), inf]
    for batch, end in zip(batches, ends, strict=True):
        own = readings[readings.between(batch.first_time, end)]
        while True:
            some = own[own.between(batch.first_time, nextafter(batch.first_time + CHUNK_S, inf))]
            own = own[len(some) :]
            yield batch, some
            if not len(own):
                break
            # The rest of a batch that is longer.
            batch = batch._replace(first_time=float(own.time[0]), counters="")


def _add(columns: SampleColumns, amounts: Sequence[float]) -> None:
    """Add the amounts to the totals in place."""
    for name, amount in zip(TOTALS, amounts, strict=True):
        column = getattr(columns, name)
        column[:] = np.where(column == UNKNOWN, UNKNOWN, (column + amount) & MASK) if name in WHOLE else column + amount


def _busy(readings: SampleColumns, start: SampleColumns, ends: _Counters) -> Floats:
    """Return the busy time as it was read, from ``ends.first`` at the first reading of ``start``."""
    begun, gap = _first(start.cpu_busy_s, ~np.isnan(start.cpu_busy_s)), _gap(readings, ends)
    busy: Floats = readings.cpu_busy_s + ((ends.first.raw_cpu or 0.0) - begun)
    if gap is not None and ends.last.raw_cpu is not None:
        busy[gap:] += ends.last.raw_cpu - _first(busy[::-1], ~np.isnan(busy[::-1]))
    return busy


def _counters(readings: SampleColumns, start: SampleColumns, ends: _Counters) -> Integers:
    """Return in and out of each interface as rows, from ``ends.first`` at the first reading of ``start``.

    The interfaces rise one after the other, each as far as it did between the ends, so that together they give the
    totals. Those of InfiniBand have totals of their own.
    """
    found = np.full((len(ends.interfaces), 2, len(readings)), UNKNOWN)
    gap, known = _gap(readings, ends), readings.net_in_bytes != UNKNOWN
    for is_port in (False, True):
        own = [place for place, one in enumerate(ends.interfaces) if (one.kind in INFINIBAND) is is_port]
        for way in range(2):
            totals, begun = _totals(readings, way, is_port), _totals(start, way, is_port)
            moved = (totals - _first(begun, start.net_in_bytes != UNKNOWN)) & MASK
            before: int = 0
            for place in own:
                name, is_short = ends.interfaces[place].name, ends.interfaces[place].width_bits == 32
                at, to = (int(end.raw.get(name, _UNREAD)[way]) for end in (ends.first, ends.last))
                size = 2**32 * (4 if is_port else 1) if is_short else 2**64
                most = _UNLIMITED if place == own[-1] else min((to - at) % size, _UNLIMITED)
                counter = np.clip(moved - before, 0, most).astype(np.uint64) + np.uint64(at)
                if gap is not None and known.any():
                    counter[gap:] += np.uint64((to - int(counter[known][-1])) % 2**64)
                found[place, way] = np.where(
                    known, (counter % np.uint64(size) if is_short else counter).view(np.int64), UNKNOWN
                )
                before = min(before + int(most), _UNLIMITED)
    return found.reshape(-1, len(readings))


def _gap(readings: SampleColumns, ends: _Counters) -> int | None:
    """Return the last reading before which something is unknown: from there on, counters lead to those at the end."""
    gaps = np.flatnonzero(np.diff(readings.gap_s) > 0) + 1
    return int(gaps[-1]) if len(gaps) and ends.first is not ends.last else None


def _totals(readings: SampleColumns, way: int, is_port: bool) -> Integers:
    """Return the totals in or out of InfiniBand, or of the other interfaces."""
    ports = (readings.ib_in_bytes, readings.ib_out_bytes)[way]
    ports = np.where(ports == UNKNOWN, 0, ports)
    return ports if is_port else (readings.net_in_bytes, readings.net_out_bytes)[way] - ports


def _first(column: NDArray[Any], known: NDArray[np.bool_]) -> Any:
    """Return the first known value; 0 if there is none."""
    return column[known.argmax()] if known.any() else 0


class _CodedColumn(msgspec.Struct, array_like=True):
    """A column of a chunk: ``first`` plus ``step`` times the sums of the differences gives the values without a bit in
    ``unknown``, in whole numbers, microseconds or the bits of doubles.
    """

    is_bits: bool
    length: int
    unknown: bytes  # empty: none
    first: int
    step: int
    differences: bytes


_chunk = msgspec.msgpack.Decoder(list[_CodedColumn]).decode


def _unpacked(chunk: bytes) -> SampleColumns:
    return SampleColumns(*(_values(name, column) for name, column in zip(NAMES, _chunk(chunk), strict=True)))


def _values(name: str, packed: _CodedColumn) -> NDArray[Any]:
    column: NDArray[Any] = np.full(packed.length, UNKNOWN) if name in WHOLE else np.full(packed.length, np.nan)
    known = np.ones(packed.length, np.bool_)
    if packed.unknown:
        bits = np.frombuffer(zlib.decompress(packed.unknown), np.uint8)
        known = ~np.unpackbits(bits, count=packed.length).astype(np.bool_)
    if known.any():
        whole = np.append(0, inflate(packed.differences, 1)[0]).cumsum() * packed.step + packed.first
        unit = 1.0 if name == "memory_used_bytes" else 1e6
        column[known] = whole if name in WHOLE else whole.view(np.float64) if packed.is_bits else whole / unit
    return column
