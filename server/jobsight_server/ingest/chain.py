"""Puts a batch that arrives out of order into its place in the chain of its node's counters.

Each stored batch keeps its *anchor*: the counters after its first and after its last reading. A late batch is
continued from the anchor before it; then the batch after it is joined to the late one, and if that changes the
totals (a wrap that only the late batch reveals) all that follows is off by the difference (see ``shifts``). Two
rows are read, however much follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from jobsight_server.ingest.anchors import Anchor, load_anchor
from jobsight_server.ingest.counters import State, correct
from jobsight_server.ingest.shifts import Amounts, Shift, amounts_at
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.schema import batches
from jobsight_server.storage.totals import wrapped

_SAME_S = 1e-6  # sums of seconds that differ by less differ by rounding only


def anchor_before(connection: Connection, node_id: int, time: float, shifts: Sequence[Shift]) -> State | None:
    """The counters to continue from at ``time``: of the last batch that began before; None where none did.

    They are those after its last reading, or after its first where its readings reach beyond ``time``.
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
    anchor = load_anchor(row.counters)
    if anchor is None:
        return State("", min(row.last_time, time))  # as after a reboot: nothing is known of the time between
    state = anchor.last if anchor.last.time < time else anchor.first
    return amounts_at(shifts, row.first_time).to_state(state)


def rejoin(
    connection: Connection, node_id: int, late: Batch, last: State, shifts: Sequence[Shift], assumed_speed_bps: float
) -> tuple[float, Amounts] | None:
    """Joins the batch after ``late`` (whose last counters are ``last``) to it.

    Returns from what time on all totals of the node are off, and by how much; None where they are right. Batches
    that overlap in time are left as they are: each was continued from a reading before it.
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
    anchor = None if row is None else load_anchor(row.counters)
    if row is None or anchor is None or row.first_time <= late.time[-1]:
        return None
    joined = correct(_first_reading(late, anchor), last, assumed_speed_bps).last
    was = amounts_at(shifts, row.first_time).to_state(anchor.first)
    off = Amounts(
        wrapped(joined.net_in - was.net_in),
        wrapped(joined.net_out - was.net_out),
        joined.cpu - was.cpu,
        joined.gap - was.gap,
    )
    if off.net_in == off.net_out == 0 and max(abs(off.cpu), abs(off.gap)) < _SAME_S:
        return None
    return row.first_time, off


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
