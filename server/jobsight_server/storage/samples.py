"""Readings of nodes as they are stored: new ones are rows of ``samples``, older ones packed rows of ``sample_chunks``.

Read both with the amounts of ``shifts``, and in one statement: no reader must see a shift half done or miss readings
during packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import inf, nextafter
from typing import Any

import numpy as np
from sqlalchemy import Connection

from jobsight_server.storage.engine import fetch
from jobsight_server.storage.sample_columns import MASK, NAMES, TOTALS, WHOLE, SampleColumns, Totals, joined

CHUNK_S = 6 * 3600.0
"""Longest time of one chunk, which stays within one multiple of it."""

_EVER = 1e18
_ROW = "(SELECT n.time FROM samples n WHERE n.node_id = asked.node_id AND n.time {} LIMIT 1 OFFSET {})"
_CHUNK = (
    "(SELECT n.first_time FROM sample_chunks n WHERE n.node_id = asked.node_id AND n.first_time {} LIMIT 1 OFFSET {})"
)


def _with_shift(name: str) -> str:
    if name in WHOLE:
        return f"((s.{name} & {MASK}) + coalesce(h.{name}, 0)) & {MASK}"
    return f"s.{name} + coalesce(h.{name}, 0)" if name in TOTALS else f"s.{name}"


# Rows first; then the chunks, with the amounts and times of a shift of some of their readings.
_READ = f"""
    WITH asked(node_id, since, until) AS (
        SELECT CAST(? AS INTEGER), CAST(? AS DOUBLE PRECISION), CAST(? AS DOUBLE PRECISION)),
    bounds(node_id, low, high, first, last) AS (SELECT node_id, {{low}}, {{high}}, {{first}}, {{last}} FROM asked)
    SELECT {", ".join(map(_with_shift, NAMES))}, NULL, NULL
    FROM bounds CROSS JOIN samples s
    LEFT JOIN shifts h ON h.node_id = s.node_id AND h.since <= s.time AND s.time < h.until
    WHERE s.node_id = bounds.node_id AND s.time >= bounds.low AND s.time <= bounds.high
    UNION ALL
    SELECT h.since, {", ".join(f"h.{name}" if name in TOTALS else "NULL" for name in NAMES[1:])}, h.until, c.packed
    FROM bounds CROSS JOIN sample_chunks c
    LEFT JOIN shifts h ON h.node_id = c.node_id AND h.since <= c.last_time AND c.first_time < h.until
    WHERE c.node_id = bounds.node_id AND c.first_time >= bounds.first AND c.first_time <= bounds.last
        AND c.first_time <= bounds.high AND c.last_time >= bounds.low"""
_LAST_MEMORY = (
    "SELECT time, memory_used_bytes FROM samples WHERE node_id = ? AND time > ? AND time < ? "
    "AND memory_used_bytes IS NOT NULL ORDER BY time DESC LIMIT 1"
)
_CHUNKS_BACK = (
    "SELECT packed FROM sample_chunks WHERE node_id = ? AND first_time > ? AND first_time < ? AND last_time > ? "
    "ORDER BY first_time DESC"
)


def read_samples(connection: Connection, node_id: int, since: float, until: float, around: int = 0) -> SampleColumns:
    """Return the node's readings from ``since`` to ``until``, and at least ``around`` before and after them if it has
    some.
    """
    rows = fetch(connection, _statement(around), (node_id, since, until))
    chunks: dict[bytes, list[Any]] = {}
    for row in rows:
        if row[-1] is not None:
            chunks.setdefault(row[-1], []).append(row)
    if not chunks:
        return joined([SampleColumns.of_rows(rows)])
    new = SampleColumns.of_rows([row for row in rows if row[-1] is None])
    columns = joined([*(_shifted(packed, shifts) for packed, shifts in chunks.items()), new])
    return columns if around else columns[columns.between(since, nextafter(until, inf))]


def last_memory(connection: Connection, node_id: int, since: float, until: float) -> tuple[float, float] | None:
    """Return time and bytes of the last reading between the two times with the memory in use."""
    found: tuple[float, float] | None = None
    for time, used in fetch(connection, _LAST_MEMORY, (node_id, since, until)):
        found, since = (time, float(used)), time
    for (packed,) in fetch(connection, _CHUNKS_BACK, (node_id, since - CHUNK_S, until, since)):
        columns = SampleColumns.unpack(packed)
        used = columns.memory_used_bytes
        (known,) = np.nonzero(np.isfinite(used) & (columns.time > since) & (columns.time < until))
        if len(known):
            return float(columns.time[known[-1]]), float(used[known[-1]])
    return found


@cache
def _statement(around: int) -> str:
    if not around:
        return _READ.format(low="since", high="until", first=f"since - {CHUNK_S}", last="until")
    enough = f"AND n.samples >= {around} ORDER BY n.first_time"
    return _READ.format(
        low=f"coalesce({_ROW.format('< since ORDER BY n.time DESC', around - 1)}, {-_EVER})",
        high=f"coalesce({_ROW.format('> until ORDER BY n.time', around - 1)}, {_EVER})",
        # The nearest chunk before may have readings after ``since``; the one before that has none.
        first=f"coalesce({_CHUNK.format(f'< since {enough} DESC', 1)}, {-_EVER})",
        last=f"coalesce({_CHUNK.format(f'> until {enough}', 0)}, {_EVER})",
    )


def _shifted(packed: bytes, shifts: Sequence[Any]) -> SampleColumns:
    columns = SampleColumns.unpack(packed)
    for since, *amounts, until, _ in shifts:
        if since is not None:
            totals = Totals(*(amount for name, amount in zip(NAMES[1:], amounts, strict=True) if name in TOTALS))
            columns = columns.plus(columns.between(since, until), totals)
    return columns


def lock_name(node_id: int) -> str:
    """Return the name of the lock for packing readings of the node, or summarising and deleting them."""
    return f"jobsight samples {node_id}"
