"""Puts a batch that arrives out of order into its place in the chain of its node's counters.

Each stored batch keeps its *anchor*: the counters after its first and after its last reading. A late batch is
continued from the anchor before it; then the batch after it is joined anew to the late one, and if that changes
the totals (a wrap that only the late batch reveals) all that follows is shifted by the difference.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, bindparam, select, text, update

from jobsight_server.ingest.counters import State, correct
from jobsight_server.ingest.wire import Batch, Interface
from jobsight_server.storage.schema import batches


class Anchor(Struct):
    """The counters after the first and the last reading of a batch, and the interfaces they belong to."""

    first: State
    last: State
    interfaces: list[Interface]


_decoder = msgspec.json.Decoder(Anchor)
_SAME_S = 1e-6  # sums of seconds that differ by less differ by rounding only

_SHIFT = text(
    "UPDATE samples SET net_in_bytes = net_in_bytes + :net_in, net_out_bytes = net_out_bytes + :net_out, "
    "cpu_busy_s = cpu_busy_s + :cpu, gap_s = gap_s + :gap WHERE node_id = :node_id AND time >= :since"
)


def dump_anchor(anchor: Anchor) -> str:
    """``anchor`` as JSON text."""
    return msgspec.json.encode(anchor).decode()


def anchor_before(connection: Connection, node_id: int, time: float) -> State | None:
    """The counters to continue from at ``time``: of the last batch that began before; None where none did.

    They are those after its last reading, or after its first where its readings reach beyond ``time``.
    """
    query = (
        select(batches.c.counters)
        .where(batches.c.node_id == node_id, batches.c.first_time < time)
        .order_by(batches.c.first_time.desc())
        .limit(1)
    )
    counters = connection.execute(query).scalar()
    if counters is None:
        return None
    anchor = _decoder.decode(counters)
    return anchor.last if anchor.last.time < time else anchor.first


def rejoin(connection: Connection, node_id: int, late: Batch, last: State, assumed_speed_bps: float) -> State | None:
    """Joins what follows ``late`` (whose last counters are ``last``) to it.

    Returns the node's newest counters where they were shifted, else None. Batches that overlap in time are left
    as they are: each was continued from a reading before it.
    """
    later = (
        select(batches.c.boot_id, batches.c.sequence, batches.c.first_time, batches.c.counters)
        .where(
            batches.c.node_id == node_id,
            batches.c.first_time >= late.time[0],
            (batches.c.boot_id != late.boot_id) | (batches.c.sequence != late.sequence),
        )
        .order_by(batches.c.first_time)
    )
    following = [(row, _decoder.decode(row.counters)) for row in connection.execute(later)]
    if not following or following[0][0].first_time <= late.time[-1]:
        return None
    first_row, first_anchor = following[0]
    joined = correct(_first_reading(late, first_anchor), last, assumed_speed_bps).last
    was = first_anchor.first
    shift = (joined.net_in - was.net_in, joined.net_out - was.net_out, joined.cpu - was.cpu, joined.gap - was.gap)
    if shift[:2] == (0, 0) and max(map(abs, shift[2:])) < _SAME_S:
        return None
    values = dict(zip(("net_in", "net_out", "cpu", "gap"), shift, strict=True))
    connection.execute(_SHIFT, {**values, "node_id": node_id, "since": first_row.first_time})
    moved = [(row, _shift_anchor(anchor, shift)) for row, anchor in following]
    connection.execute(
        update(batches).where(
            batches.c.node_id == node_id,
            batches.c.boot_id == bindparam("b_boot_id"),
            batches.c.sequence == bindparam("b_sequence"),
        ),
        [
            {"b_boot_id": row.boot_id, "b_sequence": row.sequence, "counters": dump_anchor(anchor)}
            for row, anchor in moved
        ],
    )
    return max((anchor.last for _, anchor in moved), key=lambda state: state.time)


def _first_reading(late: Batch, anchor: Anchor) -> Batch:
    """The first reading of the batch with ``anchor``, as a batch of its own."""
    state = anchor.first

    def column(position: int) -> list[list[int | None]]:
        return [
            [state.raw[interface.name][position] if interface.name in state.raw else None]  # type: ignore[list-item]
            for interface in anchor.interfaces
        ]

    return msgspec.structs.replace(
        late,
        boot_id=state.boot_id,
        interfaces=anchor.interfaces,
        time=[state.time],
        bytes_in=column(0),
        bytes_out=column(1),
        memory_used_bytes=[None],
        cpu_busy_s=[state.raw_cpu],
        marks=[],
    )


def _shift_anchor(anchor: Anchor, shift: tuple[int, int, float, float]) -> Anchor:
    def moved(state: State) -> State:
        return msgspec.structs.replace(
            state,
            net_in=state.net_in + shift[0],
            net_out=state.net_out + shift[1],
            cpu=state.cpu + shift[2],
            gap=state.gap + shift[3],
        )

    return Anchor(moved(anchor.first), moved(anchor.last), anchor.interfaces)
