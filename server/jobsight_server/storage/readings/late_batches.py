"""Batches whose readings were old when stored.

A late batch has a row until the profiler has examined the runs it concerns. The one writer writes the row in the
transaction of its batch: it appears exactly with the readings, however long the batch waited or was retried. Nothing
depends on any clock, except the time for nodes to send the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

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
    """Return the age from which readings count as late, if runs wait ``grace_s`` for theirs.

    Half the grace at most: a batch for which a run did not wait must not count as in time.
    """
    return min(_LATE_S, grace_s / 2)


@dataclass(frozen=True, slots=True)
class LateBatches:
    """Late batches up to the number ``top``, in the order in which they were committed."""

    spans: Spans
    top: int


def new_late(connection: Connection) -> LateBatches:
    """Return the batches not examined yet."""
    return _found(connection.execute(_NEW, {"no": False}))


def settled_late(connection: Connection, now: float, grace_s: float) -> LateBatches:
    """Return the batches whose nodes have had ``grace_s`` to send the rest."""
    return _found(connection.execute(_WAITED_FOR, _due(now, grace_s)))


def see(connection: Connection, found: LateBatches) -> None:
    """Mark the batches as no longer new."""
    connection.execute(_SEE, {"yes": True, "no": False, "top": found.top})


def forget(connection: Connection, found: LateBatches, now: float, grace_s: float) -> None:
    """Delete the batches after examination; ``now`` and ``grace_s`` as when they were found."""
    connection.execute(_DELETE, {**_due(now, grace_s), "top": found.top})


def _due(now: float, grace_s: float) -> dict[str, float]:
    return {"until": now - grace_s, "ahead": now + _AHEAD_S}


def _found(rows: Iterable[Any]) -> LateBatches:
    spans, top = {}, 0
    for node, first, last, newest in rows:
        spans[node] = (first, last)
        top = max(top, newest)
    return LateBatches(spans, top)
