"""Batches whose readings were old when stored.

A late batch has a row until the profiler has examined the runs it concerns. The one writer writes the row in the
transaction of its batch: it appears exactly with the readings, however long the batch waited or was retried. Nothing
depends on any clock, except the time for nodes to send the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, or_, select, update

from jobsight_server.storage.engine import insertion
from jobsight_server.storage.schema import late_batches

INSERT = insertion(late_batches, ("node_id", "first_time", "last_time", "stored_at"))

# Readings older than this when stored are late; others arrive before their runs are profiled.
_LATE_S = 300.0
# Rows stored this far in the future were stored before the clock was set back.
_AHEAD_S = 60.0

_LATE = late_batches.c

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
    return _found(connection, ~_LATE.seen)


def settled_late(connection: Connection, now: float, grace_s: float) -> LateBatches:
    """Return the batches whose nodes have had ``grace_s`` to send the rest."""
    return _found(connection, _is_due(now, grace_s))


def see(connection: Connection, found: LateBatches) -> None:
    """Mark the batches as no longer new."""
    connection.execute(update(late_batches).where(~_LATE.seen, _LATE.id <= found.top).values(seen=True))


def forget(connection: Connection, found: LateBatches, now: float, grace_s: float) -> None:
    """Delete the batches after examination; ``now`` and ``grace_s`` as when they were found."""
    connection.execute(delete(late_batches).where(_is_due(now, grace_s), _LATE.id <= found.top))


def _is_due(now: float, grace_s: float) -> ColumnElement[bool]:
    return or_(_LATE.stored_at <= now - grace_s, _LATE.stored_at > now + _AHEAD_S)


def _found(connection: Connection, which: ColumnElement[bool]) -> LateBatches:
    columns = (_LATE.node_id, func.min(_LATE.first_time), func.max(_LATE.last_time), func.max(_LATE.id))
    spans, top = {}, 0
    for node, first, last, newest in connection.execute(select(*columns).where(which).group_by(_LATE.node_id)):
        spans[node] = (first, last)
        top = max(top, newest)
    return LateBatches(spans, top)
