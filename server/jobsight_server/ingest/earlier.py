"""Readings and batches of releases 0.2 and 0.3 become rows of ``readings``, some hours of a node at a time.

There, a reading was a row of ``samples`` with totals since the node's first one, later packed into ``sample_chunks``;
changes of totals waited in ``shifts``; ``batches`` had the counters at both ends of each, with the same totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nextafter
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import Connection, MetaData, insert

from jobsight_server.ingest.counters import CounterState, dump_ends, dump_state, totals_of
from jobsight_server.ingest.group_writer import ROW
from jobsight_server.ingest.late import interfaces_of
from jobsight_server.ingest.wire import BatchInterface
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.sample_columns import (
    MASK,
    NAMES,
    TOTALS,
    UNKNOWN,
    WHOLE,
    SampleColumns,
    Totals,
    encode_link,
    pack_plain,
)
from jobsight_server.storage.samples import CHUNK_S
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
_ABSENT: dict[str, Any] = dict.fromkeys(Totals.__struct_fields__, 0) | {"raw": {}}


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


class _Ends(NamedTuple):
    """A batch's counters after its first and last reading, and their interfaces."""

    first: CounterState
    last: CounterState
    interfaces: Sequence[BatchInterface]


def convert(connection: Connection, present: MetaData) -> None:
    """Move the rows of the tables ``present`` to today's tables, which are empty."""
    for node_id, counters, last_time in fetch(connection, "SELECT id, counters, last_time FROM nodes", ()):
        base = _Node(connection, present, node_id).convert()
        state = _state(counters) or CounterState(boot_id="", time=last_time)
        write_many(connection, "UPDATE nodes SET counters = ? WHERE id = ?", [(dump_state(state - base), node_id)])


def _state(text: str | bytes) -> CounterState | None:
    """Return the counters as these releases wrote them; None if that cannot be parsed, as some of 0.1."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
        return msgspec.convert(
            [found.get(name, _ABSENT.get(name)) for name in CounterState.__struct_fields__], CounterState
        )
    except msgspec.MsgspecError:
        return None


class _Node:
    def __init__(self, connection: Connection, present: MetaData, node_id: int) -> None:
        self._connection, self._id = connection, node_id
        self._tables = present.tables
        last = "coalesce(last_sequence, sequence)" if "last_sequence" in present.tables["batches"].c else "sequence"
        self._batches = (
            f"SELECT {', '.join(_Batch._fields)} FROM batches WHERE node_id = ? AND first_time >= ? "
            "AND first_time < ? ORDER BY first_time"
        ).replace("last_sequence", last, 1)
        self._shifts = [(a, b, Totals(*moved)) for a, b, *moved in fetch(connection, _SHIFTS, (node_id,))]
        self._boots: dict[tuple[str, bytes], int] = {}
        self._base: Totals | None = None

    def convert(self) -> Totals:
        """Store the node's rows; return the totals at the first reading of the last one."""
        begin = self._next(-inf)
        while begin is not None:
            end = begin + CHUNK_S
            batches = self._batches_between(begin, end)
            end = max([end, *(nextafter(batch.last_time, inf) for batch in batches)])
            batches = self._batches_between(begin, end)
            readings = self._readings_between(begin, end)
            write_many(self._connection, ROW, [self._row(*one) for one in _by_batch(batches, readings)])
            begin = self._next(end)
        return self._base or Totals()

    def _next(self, time: float) -> float | None:
        """Return the time from which there are readings or batches not earlier than ``time``."""
        queries = (query for table, query in _NEXT.items() if table in self._tables)
        found = (fetch(self._connection, query, (self._id, max(time, -1e18)))[0][0] for query in queries)
        return min((max(time, begin) for begin in found if begin is not None), default=None)

    def _batches_between(self, begin: float, end: float) -> list[_Batch]:
        return [_Batch(*row) for row in fetch(self._connection, self._batches, (self._id, begin, end))]

    def _readings_between(self, begin: float, end: float) -> SampleColumns:
        parts = [SampleColumns.of_rows(fetch(self._connection, _ROWS, (self._id, begin, end)))]
        if "sample_chunks" in self._tables:
            asked = (self._id, begin - CHUNK_S, end, begin)
            packed = [SampleColumns.unpack(row) for (row,) in fetch(self._connection, _CHUNKS, asked)]
            # If two readings have the same time, the chunk's counts.
            parts = [*(columns[columns.between(begin, end)] for columns in packed), *parts]
        found = SampleColumns(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES)).in_order()
        for since, until, amounts in self._shifts:
            _add(found[found.between(since, until)], amounts)
        return found

    def _shifted(self, time: float) -> Totals:
        return sum((moved for since, until, moved in self._shifts if since <= time < until), Totals())

    def _row(self, batch: _Batch, readings: SampleColumns) -> tuple[Any, ...]:
        ends = self._ends(batch, readings)
        base = totals_of(ends.first)
        link = Totals() if self._base is None else base - self._base
        self._base = base
        _add(readings, Totals() - base)
        last_time = max(batch.last_time, *readings.time[-1:].tolist(), batch.first_time)
        columns: list[Any] = [getattr(readings, name).tolist() for name in NAMES]
        if not (readings.ib_in_bytes != UNKNOWN).any():
            columns[6:] = None, None
        is_joined = batch.last_sequence != batch.sequence
        return (
            *(self._id, batch.first_time, last_time, len(readings), batch.received_at, self._boot(batch, ends)),
            *(batch.sequence, batch.last_sequence, batch.checksum, batch.uptime_s, batch.owner_present),
            encode_link(link),
            dump_ends(ends.first, ends.last - base, ends.interfaces),
            readings.pack() if is_joined else pack_plain(columns),
        )

    def _ends(self, batch: _Batch, readings: SampleColumns) -> _Ends:
        """Return the counters at both ends; where they are unknown, the totals of the readings."""
        try:
            first, last, interfaces = (
                msgspec.json.decode(batch.counters, type=dict[str, msgspec.Raw]).get(name, b"")
                for name in ("first", "last", "interfaces")
            )
            before, after, of = _state(bytes(first)), _state(bytes(last)), interfaces_of(bytes(interfaces))
        except msgspec.MsgspecError:
            before, after, of = None, None, []
        if before is not None and after is not None:
            moved = self._shifted(batch.first_time)
            return _Ends(before + moved, after + moved, of)
        known = [_ends_of(readings, place) for place in (0, -1)]
        states = (CounterState(boot_id="", time=time) for time in (batch.first_time, batch.last_time))
        first_state, last_state = (state + totals for state, totals in zip(states, known, strict=True))
        return _Ends(first_state, last_state, of)

    def _boot(self, batch: _Batch, ends: _Ends) -> int:
        interfaces = msgspec.json.encode(ends.interfaces)
        key = (batch.boot_id, interfaces)
        if key not in self._boots:
            values = {"node_id": self._id, "boot_id": batch.boot_id, "interfaces": interfaces}
            new = self._connection.execute(insert(boots).values(values).returning(boots.c.id))
            self._boots[key] = new.scalar_one()
        return self._boots[key]


def _by_batch(batches: Sequence[_Batch], readings: SampleColumns) -> Iterator[tuple[_Batch, SampleColumns]]:
    """Yield the batches, each with the readings from its begin to that of the next; at most six hours."""
    if len(readings) and (not batches or readings.time[0] < batches[0].first_time):
        times = float(readings.time[0]), float(readings.time[-1])
        until = batches[0].first_time if batches else inf
        batches = [_Batch("", 0, 0, 0, *times, times[1], None, None, ""), *batches]
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


def _add(columns: SampleColumns, amounts: Totals) -> None:
    """Add the amounts to the totals in place."""
    for name, amount in zip(TOTALS, msgspec.structs.astuple(amounts), strict=True):
        column = getattr(columns, name)
        column[:] = np.where(column == UNKNOWN, UNKNOWN, (column + amount) & MASK) if name in WHOLE else column + amount


def _ends_of(readings: SampleColumns, place: int) -> Totals:
    """Return the first or last known totals."""
    found = []
    for name in TOTALS:
        column = getattr(readings, name)
        known = column[column != UNKNOWN if name in WHOLE else ~np.isnan(column)]
        found.append(known[place].item() if len(known) else 0)
    return Totals(*found)
