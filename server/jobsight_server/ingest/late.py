"""Stores late batches, which begin before a node's newest reading, in their place in time.

A late batch continues from the counters of the row before it; the row after it is linked to the late one. However much
follows, two rows are read and one is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection

from jobsight_server.ingest.counters import Corrected, CounterState, correct, load_ends
from jobsight_server.ingest.wire import Batch, BatchInterface
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.sample_columns import SampleColumns, Totals, decode_link, encode_link
from jobsight_server.storage.samples import CHUNK_S

_ROW = (
    "SELECT r.id, r.first_time, r.last_time, r.link, r.counters, b.boot_id, b.interfaces "
    "FROM readings r JOIN boots b ON b.id = r.boot WHERE r.node_id = ? AND r.first_time "
)
_BEFORE = _ROW + "<= ? ORDER BY r.first_time DESC, r.id DESC LIMIT 1"
_AFTER = _ROW + "> ? ORDER BY r.first_time, r.id LIMIT 1"
_LINKS = "SELECT link FROM readings WHERE node_id = ? AND first_time > ?"
_RELINK = "UPDATE readings SET link = ? WHERE id = ?"
_OVERLAPPING = (
    "SELECT packed FROM readings WHERE node_id = ? AND first_time >= ? AND first_time <= ? AND last_time >= ?"
)
_SAME_S = 1e-6  # smaller differences between sums of seconds are rounding

interfaces_of = msgspec.json.Decoder(list[BatchInterface]).decode


@dataclass(frozen=True, slots=True)
class _Stored:
    """A row beside a late batch; ``first`` and ``last`` are its counters at both ends."""

    id: int
    link: Totals
    interfaces: Sequence[BatchInterface]
    first: CounterState
    last: CounterState


def _found(connection: Connection, query: str, node_id: int, time: float) -> _Stored | None:
    for number, first, last, link, counters, boot_id, packed in fetch(connection, query, (node_id, time)):
        interfaces = interfaces_of(packed)
        ends = load_ends(counters, boot_id, (first, last), interfaces)
        return _Stored(number, Totals(*decode_link(link)), interfaces, *ends)
    return None


def place(
    connection: Connection, node_id: int, batch: Batch, assumed_speed_bps: float
) -> tuple[Corrected, bool | None]:
    """Correct a late batch between its neighbours, and link the row after it to it.

    Return it without the readings whose times are stored already, and whether totals from there on moved; None if there
    is no row after it. It continues from the last reading of the row before, or from the first one if that row extends
    beyond its begin. A row that it overlaps stays where it is, continued from a reading before.
    """
    before = _found(connection, _BEFORE, node_id, batch.time[0])
    state = None
    if before is not None:
        state = before.last if before.last.time < batch.time[0] else before.first
    corrected = correct(batch, state, assumed_speed_bps)
    _drop_stored(connection, node_id, batch, corrected)
    after = _found(connection, _AFTER, node_id, batch.time[0])
    if after is None:
        return corrected, None
    if after.first.time > batch.time[-1]:
        link = correct(_first_reading(batch, after), corrected.last, assumed_speed_bps).link
    elif before is None:
        link = correct(_first_reading(batch, after), corrected.first, assumed_speed_bps).link
    else:
        link = after.link - corrected.link
    write_many(connection, _RELINK, [(encode_link(link), after.id)])
    off = link + corrected.link - after.link
    whole = (off.net_in, off.net_out, off.ib_in, off.ib_out)
    return corrected, any(whole) or max(abs(off.cpu), abs(off.gap)) >= _SAME_S


def _drop_stored(connection: Connection, node_id: int, batch: Batch, corrected: Corrected) -> None:
    """Drop the readings whose times the node has already."""
    overlap = (node_id, batch.time[0] - CHUNK_S, batch.time[-1], batch.time[0])
    taken: set[float] = set()
    for (packed,) in fetch(connection, _OVERLAPPING, overlap):
        taken.update(SampleColumns.unpack(packed).time.tolist())
    new = [index for index, time in enumerate(batch.time) if time not in taken]
    if len(new) < len(batch.time):
        corrected.columns = [column and [column[index] for index in new] for column in corrected.columns]


def rise_after(connection: Connection, node_id: int, time: float) -> Totals:
    """Return the totals from the first reading of the last row that begins by ``time`` to that of the node's last."""
    links = fetch(connection, _LINKS, (node_id, time))
    return sum((Totals(*decode_link(link)) for (link,) in links), Totals())


def _first_reading(late: Batch, row: _Stored) -> Batch:
    """Return the first reading of ``row`` as a batch of its own."""
    state = row.first

    def column(position: int) -> list[list[int | None]]:
        return [
            [state.raw[interface.name][position] if interface.name in state.raw else None]  # type: ignore[list-item]
            for interface in row.interfaces
        ]

    return msgspec.structs.replace(
        late,
        boot_id=state.boot_id,
        interfaces=row.interfaces,
        time=[state.time],
        bytes_in=column(0),
        bytes_out=column(1),
        memory_used_bytes=[None],
        cpu_busy_s=[state.raw_cpu],
        boottime_s=[state.boottime_s],
        marks=[],
    )
