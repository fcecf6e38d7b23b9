"""One node over time, thinned to a bounded number of points without losing traffic."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from jobsight_server.record import Record
from jobsight_server.storage.engine import whole
from jobsight_server.storage.samples import SETTLED, risen

POINTS = 500

# The cumulative columns rise with time, so the largest of a bucket is its last; its time is that of the last reading
# with a value of the metric.
_AGGREGATES = """
    max(time) AS time,
    max(CASE WHEN net_in_bytes IS NOT NULL THEN time END) AS in_time, max(net_in_bytes) AS net_in_bytes,
    max(CASE WHEN net_out_bytes IS NOT NULL THEN time END) AS out_time, max(net_out_bytes) AS net_out_bytes,
    max(CASE WHEN cpu_busy_s IS NOT NULL THEN time END) AS cpu_time, max(cpu_busy_s) AS cpu_busy_s,
    avg(memory_used_bytes) AS memory_used_bytes, max(gap_s) AS gap_s
"""


class Timeline(Record):
    """One node over [since, until] as columns of equal length; null means unknown.

    ``time``: end of each interval; ``in_bps``, ``out_bps``: bits per second on average over it;
    ``memory_used_bytes``: mean; ``cpu_utilisation``: busy share of all processors, 0..1.
    """

    since: float
    until: float
    time: list[float]
    in_bps: list[float | None]
    out_bps: list[float | None]
    memory_used_bytes: list[float | None]
    cpu_utilisation: list[float | None]


def timeline(
    connection: Connection, node_id: int, since: float, until: float, cpus: int, points: int = POINTS
) -> Timeline:
    """At most ``points`` values over [since, until]."""
    found = Timeline(since, until, [], [], [], [], [])
    previous: Row[Any] | None = None
    for row in _buckets(connection, node_id, since, until, points):
        if previous is not None:
            found.time.append(row.time)
            found.in_bps.append(_rate(previous, row, "net_in_bytes", "in_time", 8.0))
            found.out_bps.append(_rate(previous, row, "net_out_bytes", "out_time", 8.0))
            found.cpu_utilisation.append(_rate(previous, row, "cpu_busy_s", "cpu_time", 1.0 / max(cpus, 1)))
            memory = row.memory_used_bytes
            found.memory_used_bytes.append(None if memory is None else float(memory))
        previous = row
    return found


def _buckets(connection: Connection, node_id: int, since: float, until: float, points: int) -> list[Row[Any]]:
    width = max((until - since) / points, 1e-3)
    offset = "(time - :since) / :width"
    bucket = whole(connection, offset)
    parameters = {"node": node_id, "since": since, "until": until, "width": width}
    before = text(
        f"SELECT {_AGGREGATES} FROM {SETTLED} WHERE node_id = :node AND time = "
        "(SELECT max(time) FROM samples WHERE node_id = :node AND time < :since) HAVING count(*) > 0"
    )
    inside = text(
        f"SELECT {_AGGREGATES} FROM {SETTLED} WHERE node_id = :node AND time >= :since AND time <= :until "
        f"GROUP BY {bucket} ORDER BY 1"
    )
    return [*connection.execute(before, parameters), *connection.execute(inside, parameters)]


def _rate(before: Row[Any], after: Row[Any], column: str, time_column: str, factor: float) -> float | None:
    first, last = getattr(before, column), getattr(after, column)
    if first is None or last is None:
        return None
    known_s = getattr(after, time_column) - getattr(before, time_column) - (after.gap_s - before.gap_s)
    if known_s <= 0:
        return None
    rise = last - first if column == "cpu_busy_s" else risen(first, last)
    return max(0.0, float(rise)) * factor / float(known_s)
