"""Old batches of a boot that follow one another without a gap become one row: at the agents' defaults a batch has three
readings, and its row takes ten times what one of these does.

The row keeps what a late batch needs that arrives before or after it: the numbers of its batches, and the counters at
both ends. Of a batch within it only the number is known: sent again, it is a duplicate, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jobsight_server.ingest.counter_state import BatchEnds, dump_ends, load_ends
from jobsight_server.storage.engine import write_many

LONGEST_S = 6 * 3600.0
"""What one row covers at most: retention deletes whole rows."""

SILENCE_S = 600.0
"""Between two batches: a machine may have been away, which must stay visible."""

_AT_ONCE = 500

_COLUMNS = (
    "boot_id", "sequence", "last_sequence", "first_time", "last_time", "samples", "received_at", "counters", "uptime_s",
    "owner_present",
)  # fmt: skip
_OLD = text(
    f"SELECT {', '.join(_COLUMNS)} FROM batches WHERE node_id = :node_id AND first_time >= :since "
    f"AND received_at < :before ORDER BY first_time LIMIT {_AT_ONCE}"
)
_DELETE = "DELETE FROM batches WHERE node_id = ? AND boot_id = ? AND sequence = ?"
_EXTEND = (
    "UPDATE batches SET last_sequence = ?, last_time = ?, samples = ?, received_at = ?, counters = ?, uptime_s = ? "
    "WHERE node_id = ? AND boot_id = ? AND sequence = ?"
)


class _Row(NamedTuple):
    boot_id: str
    sequence: int
    last_sequence: int | None
    first_time: float
    last_time: float
    samples: int
    received_at: float
    counters: str
    uptime_s: float | None
    owner_present: bool | None

    @property
    def last(self) -> int:
        return self.sequence if self.last_sequence is None else self.last_sequence


def merge_batches(connection: Connection, node_id: int, since: float, before: float) -> tuple[float, bool]:
    """Merges some of the node's batches that begin at ``since`` or later and were received before ``before``.

    Returns from when on the next ones are, and whether there are more.
    """
    rows = [_Row(*row) for row in connection.execute(_OLD, {"node_id": node_id, "since": since, "before": before})]
    gone: list[tuple[Any, ...]] = []
    extended: list[tuple[Any, ...]] = []
    then = since
    for chain in _chains(rows):
        first, last = chain[0], chain[-1]
        ends = _joined(chain)
        then = first.first_time if ends else last.first_time  # the last of all may go on
        if ends is None:
            continue
        gone += [(node_id, row.boot_id, row.sequence) for row in chain[1:]]
        values = (last.last, last.last_time, sum(row.samples for row in chain), max(row.received_at for row in chain))
        extended.append((*values, dump_ends(ends), last.uptime_s, node_id, first.boot_id, first.sequence))
    write_many(connection, _DELETE, gone)
    write_many(connection, _EXTEND, extended)
    return then, len(rows) == _AT_ONCE and (bool(gone) or then > since)


def _chains(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """The rows, in order, in runs that can become one each."""
    chain: list[_Row] = []
    for row in rows:
        if chain and not _continues(chain[0], chain[-1], row):
            yield chain
            chain = []
        chain.append(row)
    if chain:
        yield chain


def _continues(first: _Row, before: _Row, row: _Row) -> bool:
    return (
        row.boot_id == before.boot_id
        and row.sequence == before.last + 1
        and 0.0 < row.first_time - before.last_time <= SILENCE_S
        and row.owner_present == before.owner_present
        and row.last_time - first.first_time <= LONGEST_S
    )


def _joined(chain: Sequence[_Row]) -> BatchEnds | None:
    """The counters at both ends of the chain; None if it stays as it is."""
    if len(chain) == 1:
        return None
    first, last = load_ends(chain[0].counters), load_ends(chain[-1].counters)
    if first is None or last is None or first.interfaces != last.interfaces:
        return None
    return BatchEnds(first.first, last.last, last.interfaces)
