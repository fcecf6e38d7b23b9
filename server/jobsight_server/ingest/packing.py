"""Packs rows of ``samples`` into chunks: hours of a node in one packed row, a tenth of the size.

Late rows are packed into the chunks of their time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from sqlalchemy import Connection

from jobsight_server.storage.engine import fetch, lock_until_commit, write_many
from jobsight_server.storage.event_counts import add_event_counts
from jobsight_server.storage.sample_columns import MASK, NAMES, WHOLE, SampleColumns, joined
from jobsight_server.storage.samples import CHUNK_S, lock_name

KEPT_S = 3600.0
"""Before the newest reading: these stay rows, as do all of the part of the time in which it is."""

_AT_ONCE = 4096  # readings; a chunk of them takes some 10 ms

_SPAN = "SELECT min(time), max(time) FROM samples WHERE node_id = ?"
_ROWS = (
    f"SELECT {', '.join(f'{name} & {MASK}' if name in WHOLE else name for name in NAMES)} FROM samples "
    f"WHERE node_id = ? AND time < ? ORDER BY time LIMIT {_AT_ONCE}"
)
_CHUNKS = (
    "SELECT first_time, packed FROM sample_chunks WHERE node_id = ? AND first_time >= ? AND first_time <= ? "
    "AND last_time >= ? ORDER BY first_time"
)
_DELETE_ROWS = "DELETE FROM samples WHERE node_id = ? AND time <= ?"
_DELETE_CHUNK = "DELETE FROM sample_chunks WHERE node_id = ? AND first_time = ?"
_INSERT = "INSERT INTO sample_chunks (node_id, first_time, last_time, samples, packed) VALUES (?, ?, ?, ?, ?)"


def pack_samples(connection: Connection, node_id: int) -> bool:
    """Pack the node's oldest readings that are rows, if old enough; return whether they were."""
    ((oldest, newest),) = fetch(connection, _SPAN, (node_id,))
    if oldest is None:
        return False
    begin = oldest // CHUNK_S * CHUNK_S
    if begin + CHUNK_S + KEPT_S > newest:
        return False
    # Retention may have deleted the rows while this waited.
    lock_until_commit(connection, lock_name(node_id))
    rows = SampleColumns.of_rows(fetch(connection, _ROWS, (node_id, begin + CHUNK_S)))
    if not len(rows):
        return True
    first, last = float(rows.time[0]), float(rows.time[-1])
    before = fetch(connection, _CHUNKS, (node_id, begin, last, first))
    chunks = [SampleColumns.unpack(packed) for _, packed in before]
    columns = joined([*chunks, rows])
    twice = len(rows) + sum(len(chunk) for chunk in chunks) - len(columns)
    if twice:
        # Each was counted as stored when its row was.
        add_event_counts(connection, {("samples_stored", ""): -twice, ("samples_overlapping", ""): twice})
    write_many(connection, _DELETE_ROWS, [(node_id, last)])
    write_many(connection, _DELETE_CHUNK, [(node_id, time) for time, _ in before])
    write_many(connection, _INSERT, [as_row(node_id, piece) for piece in _pieces(columns)])
    return True


def as_row(node_id: int, columns: SampleColumns) -> tuple[Any, ...]:
    """Return ``columns`` as a row of ``sample_chunks``."""
    return node_id, float(columns.time[0]), float(columns.time[-1]), len(columns), columns.pack()


def _pieces(columns: SampleColumns) -> Iterator[SampleColumns]:
    count = ceil(len(columns) / _AT_ONCE)
    for number in range(count):
        yield columns[number * len(columns) // count : (number + 1) * len(columns) // count]
