"""Changes of totals revealed by a late batch, applied to the tables in bounded steps.

A late batch may show that all totals after it are off by a constant, because of a wrap or a reset that was not visible
before. Months of readings may follow, so the change is first stored as one row of the table ``shifts``: rows of
``samples`` and ``batches`` from ``since`` to before ``until`` are to be read with its amounts added. Each step then
adds them to a number of rows and moves ``since`` on, in one transaction. So the true total of a reading is the same
before, between and after the steps, and after a crash. Every reader of totals adds the amounts in ``shifts``, in the
same statement. The rows of a node never overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import inf, nextafter

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from jobsight_server.ingest.counter_state import CounterState, dump_ends, load_ends
from jobsight_server.ingest.counters import SampleRow
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.sample_columns import MASK, SampleColumns
from jobsight_server.storage.samples import CHUNK_S, modulo
from jobsight_server.storage.schema import batches, nodes
from jobsight_server.storage.schema import shifts as table

EVER = 1e18
STEP_ROWS = 1_000  # some 10 ms on SQLite

_NEXT = text(
    "SELECT time FROM samples WHERE node_id = :node_id AND time >= :since AND time < :until "
    f"ORDER BY time LIMIT 1 OFFSET {STEP_ROWS}"
)
_ADD = text(
    f"UPDATE samples SET net_in_bytes = ((net_in_bytes & {MASK}) + :net_in) & {MASK}, "
    f"net_out_bytes = ((net_out_bytes & {MASK}) + :net_out) & {MASK}, "
    f"ib_in_bytes = ((ib_in_bytes & {MASK}) + :ib_in) & {MASK}, "
    f"ib_out_bytes = ((ib_out_bytes & {MASK}) + :ib_out) & {MASK}, "
    "cpu_busy_s = cpu_busy_s + :cpu, gap_s = gap_s + :gap "
    "WHERE node_id = :node_id AND time >= :since AND time < :until"
)
_NEXT_CHUNK = (
    "SELECT first_time, last_time, packed FROM sample_chunks WHERE node_id = ? AND first_time > ? AND first_time < ? "
    "AND last_time >= ? ORDER BY first_time LIMIT 1"
)
_PACKED = "UPDATE sample_chunks SET packed = ? WHERE node_id = ? AND first_time = ?"
_UPDATE_ENDS = update(batches).where(
    batches.c.boot_id == bindparam("b_boot_id"), batches.c.sequence == bindparam("b_sequence")
)


@dataclass(frozen=True, slots=True)
class Amounts:
    """Amounts added to totals: bytes modulo 2**62, seconds."""

    net_in: int = 0
    net_out: int = 0
    cpu: float = 0.0
    gap: float = 0.0
    ib_in: int = 0
    ib_out: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            modulo(self.net_in + other.net_in),
            modulo(self.net_out + other.net_out),
            self.cpu + other.cpu,
            self.gap + other.gap,
            modulo(self.ib_in + other.ib_in),
            modulo(self.ib_out + other.ib_out),
        )

    def __neg__(self) -> Amounts:
        return Amounts(
            modulo(-self.net_in), modulo(-self.net_out), -self.cpu, -self.gap, modulo(-self.ib_in), modulo(-self.ib_out)
        )

    def to_state(self, state: CounterState) -> CounterState:
        """``state`` with these amounts added."""
        return msgspec.structs.replace(
            state,
            net_in=modulo(state.net_in + self.net_in),
            net_out=modulo(state.net_out + self.net_out),
            cpu=state.cpu + self.cpu,
            gap=state.gap + self.gap,
            ib_in=modulo(state.ib_in + self.ib_in),
            ib_out=modulo(state.ib_out + self.ib_out),
        )


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class Shift:
    """``amounts`` are to be added to rows stored from ``since`` to before ``until``."""

    since: float
    until: float
    amounts: Amounts


def read_shifts(connection: Connection, clusters: Collection[str] | None = None) -> dict[int, list[Shift]]:
    """All pending shifts, or those of nodes of ``clusters``, by node, in order of time."""
    query = select(table).order_by(table.c.node_id, table.c.since)
    if clusters is not None:
        query = query.where(table.c.node_id.in_(select(nodes.c.id).where(nodes.c.cluster.in_(clusters))))
    found: dict[int, list[Shift]] = {}
    for node_id, since, until, *amounts in connection.execute(query):
        found.setdefault(node_id, []).append(Shift(since, until, Amounts(*amounts)))
    return found


def amounts_at(shifts: Sequence[Shift], time: float) -> Amounts:
    """The amounts to add to rows stored at ``time``."""
    return next((shift.amounts for shift in shifts if shift.since <= time < shift.until), NOTHING)


def as_stored(rows: list[SampleRow], shifts: Sequence[Shift]) -> list[SampleRow]:
    """True rows as they are to be stored given ``shifts``."""
    if not shifts:
        return rows
    stored: list[SampleRow] = []
    for time, net_in, net_out, cpu, memory, gap, ib_in, ib_out in rows:
        less = -amounts_at(shifts, time)
        stored.append(
            (
                time,
                None if net_in is None else modulo(net_in + less.net_in),
                None if net_out is None else modulo(net_out + less.net_out),
                None if cpu is None else cpu + less.cpu,
                memory,
                gap + less.gap,
                None if ib_in is None else modulo(ib_in + less.ib_in),
                None if ib_out is None else modulo(ib_out + less.ib_out),
            )
        )
    return stored


def added(shifts: Sequence[Shift], since: float, amounts: Amounts) -> list[Shift]:
    """``shifts`` with ``amounts`` on top, from ``since`` on."""
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
    """Replaces the node's shifts with these."""
    connection.execute(delete(table).where(table.c.node_id == node_id))
    if shifts:
        rows = [
            {
                "node_id": node_id,
                "since": shift.since,
                "until": shift.until,
                "net_in_bytes": shift.amounts.net_in,
                "net_out_bytes": shift.amounts.net_out,
                "cpu_busy_s": shift.amounts.cpu,
                "gap_s": shift.amounts.gap,
                "ib_in_bytes": shift.amounts.ib_in,
                "ib_out_bytes": shift.amounts.ib_out,
            }
            for shift in shifts
        ]
        connection.execute(insert(table), rows)


def step(connection: Connection, node_id: int, shifts: Sequence[Shift]) -> list[Shift]:
    """Applies the first of ``shifts`` to the next rows; returns the remaining shifts."""
    first, *rest = shifts
    place = {"node_id": node_id, "since": first.since, "until": first.until}
    until = connection.execute(_NEXT, place).scalar() or first.until
    until = _shift_chunk(connection, node_id, replace(first, until=until))
    amounts = first.amounts
    values = {"net_in": amounts.net_in, "net_out": amounts.net_out, "cpu": amounts.cpu, "gap": amounts.gap}
    values |= {"ib_in": amounts.ib_in, "ib_out": amounts.ib_out}
    connection.execute(_ADD, {**place, "until": until, **values})
    _move_ends(connection, node_id, first.since, until, amounts)
    left = [replace(first, since=until), *rest] if until < first.until else rest
    write_shifts(connection, node_id, left)
    return left


def _shift_chunk(connection: Connection, node_id: int, shift: Shift) -> float:
    """Applies ``shift`` to the first chunk that it concerns; returns until when all chunks are done."""
    concerned = (node_id, shift.since - CHUNK_S, shift.until, shift.since)
    for first_time, last_time, packed in fetch(connection, _NEXT_CHUNK, concerned):
        until = min(shift.until, nextafter(last_time, inf))
        columns, amounts = SampleColumns.unpack(packed), shift.amounts
        columns = columns.plus(
            columns.between(shift.since, until),
            (amounts.net_in, amounts.net_out, amounts.cpu, amounts.gap, amounts.ib_in, amounts.ib_out),
        )
        write_many(connection, _PACKED, [(columns.pack(), node_id, first_time)])
        return until
    return shift.until


def _move_ends(connection: Connection, node_id: int, since: float, until: float, amounts: Amounts) -> None:
    """The same for the ends of the batches that begin from ``since`` to before ``until``."""
    within = (batches.c.node_id == node_id) & (batches.c.first_time >= since) & (batches.c.first_time < until)
    moved = []
    for boot_id, sequence, counters in connection.execute(
        select(batches.c.boot_id, batches.c.sequence, batches.c.counters).where(within)
    ):
        ends = load_ends(counters)
        if ends is not None:
            shifted = msgspec.structs.replace(
                ends, first=amounts.to_state(ends.first), last=amounts.to_state(ends.last)
            )
            moved.append({"b_boot_id": boot_id, "b_sequence": sequence, "counters": dump_ends(shifted)})
    if moved:
        connection.execute(_UPDATE_ENDS.where(batches.c.node_id == node_id), moved)
