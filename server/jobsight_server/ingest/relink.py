"""Inserts a batch that arrives out of order into the chain of its node's counters.

Each stored batch keeps its *ends*: the counters after its first and after its last reading. A late batch continues
from the ends before it; then the batch after it is joined to the late one, and if that changes the totals (a wrap that
only the late batch reveals), everything after it is off by the difference (see ``shifts``). Two rows are read, however
much follows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from jobsight_server.ingest.counter_state import BatchEnds, CounterState, load_ends
from jobsight_server.ingest.counters import correct
from jobsight_server.ingest.shifts import Shift, amounts_at
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.sample_columns import Totals
from jobsight_server.storage.schema import batches

_SAME_S = 1e-6  # smaller differences between sums of seconds are rounding


def counters_before(connection: Connection, node_id: int, time: float, shifts: Sequence[Shift]) -> CounterState | None:
    """The counters to continue from at ``time``: those of the last batch that began before; None if there is none.

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
        return CounterState(
            boot_id="", time=min(row.last_time, time)
        )  # as after a reboot: nothing is known of the time between
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
    """Joins the batch after ``late`` (whose last counters are ``last``) to it.

    Returns from when on all totals of the node are off, and by how much; None if they are right. Batches that overlap
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
    """The first reading of the batch with ``ends``, as a batch of its own."""
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
        marks=[],
    )
