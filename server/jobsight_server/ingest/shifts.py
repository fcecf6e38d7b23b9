"""Changes of totals after a late batch, applied to the tables in bounded steps.

A late batch may show that all totals after it are off by a constant, because of a wrap or a reset that was not visible
before. Months of readings may follow, so the change is first stored as one row of the table ``shifts``: rows of
``samples`` and ``batches`` from ``since`` to before ``until`` are to be read with its amounts added. Each step then
adds them to a number of rows and moves ``since`` on, in one transaction. So the true total of a reading is the same
before, between and after the steps, and after a crash. Every reader of totals adds the amounts in ``shifts``, in the
same statement. The rows of a node never overlap.

Each stored batch keeps its *ends*: the counters after its first and after its last reading. A late batch continues
from the ends before it; then the batch after it is joined to the late one, and the difference is the change. Two rows
are read, however much follows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf, nextafter

import msgspec
from msgspec.structs import astuple
from sqlalchemy import Connection, bindparam, delete, select, text, update

from jobsight_server.ingest.counters import BatchEnds, CounterState, SampleRow, correct, dump_ends, load_ends
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.sample_columns import MASK, MODULUS, NAMES, TOTALS, WHOLE, SampleColumns, Totals
from jobsight_server.storage.samples import CHUNK_S
from jobsight_server.storage.schema import batches, nodes
from jobsight_server.storage.schema import shifts as table

EVER = 1e18
STEP_ROWS = 1_000  # some 10 ms on SQLite

_NEXT = text(
    "SELECT time FROM samples WHERE node_id = :node_id AND time >= :since AND time < :until "
    f"ORDER BY time LIMIT 1 OFFSET {STEP_ROWS}"
)
_SUMS = (f"(({name} & {MASK}) + ?) & {MASK}" if name in WHOLE else f"{name} + ?" for name in TOTALS)
_ADD = (
    f"UPDATE samples SET {', '.join(f'{name} = {total}' for name, total in zip(TOTALS, _SUMS, strict=True))} "
    "WHERE node_id = ? AND time >= ? AND time < ?"
)
_WRITE = f"INSERT INTO shifts (node_id, since, until, {', '.join(TOTALS)}) VALUES (?, ?, ?{', ?' * len(TOTALS)})"
_NEXT_CHUNK = (
    "SELECT first_time, last_time, packed FROM sample_chunks WHERE node_id = ? AND first_time > ? AND first_time < ? "
    "AND last_time >= ? ORDER BY first_time LIMIT 1"
)
_PACKED = "UPDATE sample_chunks SET packed = ? WHERE node_id = ? AND first_time = ?"
_UPDATE_ENDS = update(batches).where(
    batches.c.boot_id == bindparam("b_boot_id"), batches.c.sequence == bindparam("b_sequence")
)


NOTHING = Totals()


@dataclass(frozen=True, slots=True)
class Shift:
    """``amounts`` are to be added to rows stored from ``since`` to before ``until``."""

    since: float
    until: float
    amounts: Totals


def read_shifts(connection: Connection, clusters: Collection[str] | None = None) -> dict[int, list[Shift]]:
    """Return all pending shifts, or those of nodes of ``clusters``, by node, in order of time."""
    query = select(table).order_by(table.c.node_id, table.c.since)
    if clusters is not None:
        query = query.where(table.c.node_id.in_(select(nodes.c.id).where(nodes.c.cluster.in_(clusters))))
    found: dict[int, list[Shift]] = {}
    for node_id, since, until, *amounts in connection.execute(query):
        found.setdefault(node_id, []).append(Shift(since, until, Totals(*amounts)))
    return found


def amounts_at(shifts: Sequence[Shift], time: float) -> Totals:
    """Return the amounts to add to rows stored at ``time``."""
    return next((shift.amounts for shift in shifts if shift.since <= time < shift.until), NOTHING)


def as_stored(rows: list[SampleRow], shifts: Sequence[Shift]) -> list[SampleRow]:
    """Return true rows in their stored form under ``shifts``."""
    if not shifts:
        return rows
    return [_plus(row, NOTHING - amounts_at(shifts, row[0])) for row in rows]


def _plus(row: SampleRow, amounts: Totals) -> SampleRow:
    by_name = dict(zip(TOTALS, astuple(amounts), strict=True))
    sums = [None if value is None else value + by_name.get(name, 0) for name, value in zip(NAMES, row, strict=True)]
    return tuple(  # type: ignore[return-value]
        total % MODULUS if name in WHOLE and total is not None else total
        for name, total in zip(NAMES, sums, strict=True)
    )


def added(shifts: Sequence[Shift], since: float, amounts: Totals) -> list[Shift]:
    """Return ``shifts`` with ``amounts`` added from ``since`` on."""
    result: list[Shift] = []
    covered = since
    for shift in shifts:
        if shift.since < since:
            result.append(replace(shift, until=min(shift.until, since)))
        if shift.until > since:
            begin = max(shift.since, since)
            if covered < begin:
                result.append(Shift(covered, begin, amounts))
            result.append(Shift(begin, shift.until, shift.amounts + amounts))
            covered = shift.until
    if covered < EVER:
        result.append(Shift(covered, EVER, amounts))
    return [shift for shift in result if shift.amounts != NOTHING]


def write_shifts(connection: Connection, node_id: int, shifts: Sequence[Shift]) -> None:
    """Replace the node's shifts with these."""
    connection.execute(delete(table).where(table.c.node_id == node_id))
    write_many(connection, _WRITE, [(node_id, one.since, one.until, *astuple(one.amounts)) for one in shifts])


def step(connection: Connection, node_id: int, shifts: Sequence[Shift]) -> list[Shift]:
    """Apply the first of ``shifts`` to the next rows; return the remaining shifts."""
    first, *rest = shifts
    place = {"node_id": node_id, "since": first.since, "until": first.until}
    until = connection.execute(_NEXT, place).scalar() or first.until
    until = _shift_chunk(connection, node_id, replace(first, until=until))
    amounts = first.amounts
    write_many(connection, _ADD, [(*astuple(amounts), node_id, first.since, until)])
    _move_ends(connection, node_id, first.since, until, amounts)
    left = [replace(first, since=until), *rest] if until < first.until else rest
    write_shifts(connection, node_id, left)
    return left


def _shift_chunk(connection: Connection, node_id: int, shift: Shift) -> float:
    """Apply ``shift`` to the first chunk that it concerns; return the time until which all chunks are done."""
    concerned = (node_id, shift.since - CHUNK_S, shift.until, shift.since)
    for first_time, last_time, packed in fetch(connection, _NEXT_CHUNK, concerned):
        until = min(shift.until, nextafter(last_time, inf))
        columns = SampleColumns.unpack(packed)
        columns = columns.plus(columns.between(shift.since, until), shift.amounts)
        write_many(connection, _PACKED, [(columns.pack(), node_id, first_time)])
        return until
    return shift.until


def _move_ends(connection: Connection, node_id: int, since: float, until: float, amounts: Totals) -> None:
    """Apply the same to the ends of the batches that begin from ``since`` to before ``until``."""
    within = (batches.c.node_id == node_id) & (batches.c.first_time >= since) & (batches.c.first_time < until)
    moved = []
    for boot_id, sequence, counters in connection.execute(
        select(batches.c.boot_id, batches.c.sequence, batches.c.counters).where(within)
    ):
        ends = load_ends(counters)
        if ends is not None:
            moved.append({"b_boot_id": boot_id, "b_sequence": sequence, "counters": dump_ends(ends.plus(amounts))})
    if moved:
        connection.execute(_UPDATE_ENDS.where(batches.c.node_id == node_id), moved)


_SAME_S = 1e-6  # smaller differences between sums of seconds are rounding


def counters_before(connection: Connection, node_id: int, time: float, shifts: Sequence[Shift]) -> CounterState | None:
    """Return the counters to continue from at ``time``: those of the last batch that began before; None without one.

    They are those after its last reading, or after its first if its readings extend beyond ``time``.
    """
    query = (
        select(batches.c.first_time, batches.c.last_time, batches.c.counters)
        .where(batches.c.node_id == node_id, batches.c.first_time < time)
        .order_by(batches.c.first_time.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    ends = load_ends(row.counters)
    if ends is None:
        return CounterState(boot_id="", time=min(row.last_time, time))  # as after a reboot: the time between is unknown
    state = ends.last if ends.last.time < time else ends.first
    return state + amounts_at(shifts, row.first_time)


def relink(
    connection: Connection,
    node_id: int,
    late: Batch,
    last: CounterState,
    shifts: Sequence[Shift],
    assumed_speed_bps: float,
) -> tuple[float, Totals] | None:
    """Join the batch after ``late`` (whose last counters are ``last``) to it.

    Return the time from which all totals of the node are off, and by how much; None if right. Batches that overlap
    in time are left as they are: each was continued from a reading before it.
    """
    later = (
        select(batches.c.first_time, batches.c.counters)
        .where(
            batches.c.node_id == node_id,
            batches.c.first_time >= late.time[0],
            (batches.c.boot_id != late.boot_id) | (batches.c.sequence != late.sequence),
        )
        .order_by(batches.c.first_time)
        .limit(1)
    )
    row = connection.execute(later).first()
    ends = None if row is None else load_ends(row.counters)
    if row is None or ends is None or row.first_time <= late.time[-1]:
        return None
    joined = correct(_first_reading(late, ends), last, assumed_speed_bps).last
    off = joined - (ends.first + amounts_at(shifts, row.first_time))
    is_same = not any((off.net_in, off.net_out, off.ib_in, off.ib_out)) and max(abs(off.cpu), abs(off.gap)) < _SAME_S
    return None if is_same else (row.first_time, off)


def _first_reading(late: Batch, ends: BatchEnds) -> Batch:
    """Return the first reading of the batch with ``ends``, as a batch of its own."""
    state = ends.first

    def column(position: int) -> list[list[int | None]]:
        return [
            [state.raw[interface.name][position] if interface.name in state.raw else None]  # type: ignore[list-item]
            for interface in ends.interfaces
        ]

    return msgspec.structs.replace(
        late,
        boot_id=state.boot_id,
        interfaces=ends.interfaces,
        time=[state.time],
        bytes_in=column(0),
        bytes_out=column(1),
        memory_used_bytes=[None],
        cpu_busy_s=[state.raw_cpu],
        boottime_s=[state.boottime_s],
        marks=[],
    )
