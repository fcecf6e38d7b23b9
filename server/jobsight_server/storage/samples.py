"""Samples as they are stored and read, and batches whose readings were old when stored.

A late batch has a row until the profiler has examined the runs it concerns. The row is written in the transaction that
stores its batch, by the one writer, so it appears exactly when the readings do, however long the batch waited or was
retried. The profiler takes what it finds: nothing depends on any clock, except how long nodes are given to send the
rest.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, func, select, text

from jobsight_server.storage.schema import nodes

MODULUS = 2**62
"""Totals of counters are stored modulo this."""
MASK = MODULUS - 1  # for ``&``, which SQLite and PostgreSQL both have

# ``samples`` as they are to be read: including what ``shifts`` still has to add, in one statement, so that no reader
# sees a shift half done.
SETTLED = f"""(
    SELECT s.node_id, s.time,
        ((s.net_in_bytes & {MASK}) + coalesce(h.net_in_bytes, 0)) & {MASK} AS net_in_bytes,
        ((s.net_out_bytes & {MASK}) + coalesce(h.net_out_bytes, 0)) & {MASK} AS net_out_bytes,
        s.cpu_busy_s + coalesce(h.cpu_busy_s, 0) AS cpu_busy_s,
        s.memory_used_bytes, s.gap_s + coalesce(h.gap_s, 0) AS gap_s,
        ((s.ib_in_bytes & {MASK}) + coalesce(h.ib_in_bytes, 0)) & {MASK} AS ib_in_bytes,
        ((s.ib_out_bytes & {MASK}) + coalesce(h.ib_out_bytes, 0)) & {MASK} AS ib_out_bytes
    FROM samples s LEFT JOIN shifts h ON h.node_id = s.node_id AND h.since <= s.time AND s.time < h.until
) AS settled"""

INSERT = "INSERT INTO late_batches (node_id, first_time, last_time, stored_at) VALUES (?, ?, ?, ?)"

# Readings older than this when stored are late; others arrive before their runs are profiled.
_LATE_S = 300.0
# Rows stored this far in the future were stored before the clock was set back.
_AHEAD_S = 60.0

_DUE = "(stored_at <= :until OR stored_at > :ahead)"
_SPANS = "SELECT node_id, min(first_time), max(last_time), max(id) FROM late_batches WHERE {} GROUP BY node_id"
_NEW = text(_SPANS.format("seen = :no"))
_WAITED_FOR = text(_SPANS.format(_DUE))
_SEE = text("UPDATE late_batches SET seen = :yes WHERE seen = :no AND id <= :top")
_DELETE = text(f"DELETE FROM late_batches WHERE {_DUE} AND id <= :top")

Spans = Mapping[int, tuple[float, float]]
"""Node -> first and last time of the late readings."""


def late_after(grace_s: float) -> float:
    """The age from which readings count as late, if runs wait ``grace_s`` for theirs.

    Half the grace at most, so that no batch for which a run did not wait counts as in time.
    """
    return min(_LATE_S, grace_s / 2)


@dataclass(frozen=True, slots=True)
class LateBatches:
    """Late batches up to the number ``top``, in the order in which they were committed."""

    spans: Spans
    top: int


def new_late(connection: Connection) -> LateBatches:
    """The ones not examined yet."""
    return _found(connection.execute(_NEW, {"no": False}))


def settled_late(connection: Connection, now: float, grace_s: float) -> LateBatches:
    """The ones whose nodes have had ``grace_s`` to send the rest."""
    return _found(connection.execute(_WAITED_FOR, _due(now, grace_s)))


def see(connection: Connection, found: LateBatches) -> None:
    """Marks them as no longer new."""
    connection.execute(_SEE, {"yes": True, "no": False, "top": found.top})


def forget(connection: Connection, found: LateBatches, now: float, grace_s: float) -> None:
    """Deletes them after examination; ``now`` and ``grace_s`` as when they were found."""
    connection.execute(_DELETE, {**_due(now, grace_s), "top": found.top})


def _due(now: float, grace_s: float) -> dict[str, float]:
    return {"until": now - grace_s, "ahead": now + _AHEAD_S}


def _found(rows: Iterable[Any]) -> LateBatches:
    spans, top = {}, 0
    for node, first, last, newest in rows:
        spans[node] = (first, last)
        top = max(top, newest)
    return LateBatches(spans, top)


def modulo(total: int) -> int:
    """``total`` as stored, 0 to 2**62 - 1."""
    return total % MODULUS


def risen(before: int, after: int) -> int:
    """The increase of a total from ``before`` to ``after``; negative if it fell.

    >>> risen(5, 8), risen(8, 5), risen(2**62 - 2, 3)
    (3, -3, 5)
    """
    return (after - before + MODULUS // 2) % MODULUS - MODULUS // 2


class JobColumns(Struct):
    """Columns of equal length. ``cpu_s`` counts since the cgroup was made; memory is in bytes, None is unknown.

    ``used`` is anonymous and shared memory, ``cache`` the page cache.
    """

    time: list[float]
    cpu_s: list[float | None]
    used: list[int | None]
    cache: list[int | None]


_decoder = msgspec.json.Decoder(JobColumns)
_LEVEL = 6  # of zlib


def dump_columns(columns: JobColumns) -> str:
    """``columns`` as JSON text."""
    return msgspec.json.encode(columns).decode()


def pack_columns(columns: JobColumns) -> str:
    """``columns`` as text of a third of the length: JSON, compressed, in base64."""
    return b64encode(zlib.compress(msgspec.json.encode(columns), _LEVEL)).decode()


def load_columns(text: str) -> JobColumns:
    """Parses the output of ``dump_columns`` or ``pack_columns``."""
    return _decoder.decode(text if text.startswith("{") else zlib.decompress(b64decode(text)))


def memory_of_largest_nodes(connection: Connection) -> dict[str, int]:
    """Bytes by cluster; clusters whose agents report none are left out."""
    query = select(nodes.c.cluster, func.max(nodes.c.memory_total_bytes)).group_by(nodes.c.cluster)
    return {cluster: most for cluster, most in connection.execute(query) if most}
