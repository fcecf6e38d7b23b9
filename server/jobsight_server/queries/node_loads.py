"""The load of nodes now: processors, memory and network, from each one's last readings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from jobsight_server.forecasts.record import Record, Share
from jobsight_server.queries.freshness import LATE_WITHIN_S, Status, seen_at, status
from jobsight_server.queries.machines import NodeName
from jobsight_server.storage.engine import fetch

LoadFigure = Literal["load", "memory", "bandwidth"]
FIGURES: tuple[LoadFigure, ...] = ("load", "memory", "bandwidth")

_OVER_S = 120.0  # the last two intervals of readings once a minute
_BEFORE_S = 900.0
_AT_ONCE = 500
# The last reading and one some minutes before: two look-ups for each node. Older ones are packed elsewhere.
_LOADS = (
    "SELECT n.cluster, n.name, n.received_at, n.last_time, n.clock_skew_s, n.cpus, n.memory_total_bytes, "
    "b.time - a.time, b.cpu_busy_s - a.cpu_busy_s, b.memory_used_bytes, "
    "b.net_in_bytes + b.net_out_bytes - a.net_in_bytes - a.net_out_bytes, b.gap_s - a.gap_s "
    "FROM nodes n "
    "LEFT JOIN samples b ON b.node_id = n.id AND b.time = n.last_time AND n.received_at >= ? "
    "LEFT JOIN samples a ON a.node_id = n.id AND a.time = (SELECT max(s.time) FROM samples s "
    f"WHERE s.node_id = n.id AND s.time <= b.time - {_OVER_S} AND s.time > b.time - {_BEFORE_S}) "
)


class NodeLoad(Record):
    """One node: busy processors and used memory as shares of its capacity, bits per second in and out together.

    Null where it is silent, or has no such readings.
    """

    cluster: str
    name: str
    status: Status
    age_s: float
    load: Share | None
    memory: Share | None
    bandwidth_bps: float | None


class NodeLoads(Record):
    """Every node, by cluster and name."""

    now: float
    nodes: list[NodeLoad]


class LoadRates(NamedTuple):
    """A node's load in its last minutes, as in ``NodeLoad``."""

    load: float | None
    memory: float | None
    bandwidth_bps: float | None


_UNKNOWN = LoadRates(None, None, None)


def node_loads(connection: Connection, now: float) -> NodeLoads:
    """Return the last minutes of all nodes that ever sent a batch."""
    read = sorted(_read(connection, now))
    return NodeLoads(now, [NodeLoad(*name, status(age_s), age_s, *rates) for name, age_s, rates in read])


def node_rates(connection: Connection, now: float, ids: Sequence[int] | None = None) -> dict[NodeName, LoadRates]:
    """Return the last minutes of the nodes with these ``ids``; None: of all."""
    if ids is None:
        return {name: rates for name, _, rates in _read(connection, now)}
    some = [ids[begin : begin + _AT_ONCE] for begin in range(0, len(ids), _AT_ONCE)]
    return {name: rates for part in some for name, _, rates in _read(connection, now, part)}


def _read(
    connection: Connection, now: float, ids: Sequence[int] | None = None
) -> Iterator[tuple[NodeName, float, LoadRates]]:
    some = "" if ids is None else f"WHERE n.id IN ({', '.join('?' * len(ids))})"
    for cluster, name, *times, cpus, total, seconds, busy_s, used, moved, gap_s in fetch(
        connection, _LOADS + some, (now - LATE_WITHIN_S, *(ids or ()))
    ):
        age_s = max(0.0, now - seen_at(*times))
        is_silent = status(age_s) == "silent"
        rates = _UNKNOWN if is_silent else _rates(cpus, total, seconds, busy_s, used, moved, gap_s)
        yield (cluster, name), age_s, rates


def _rates(
    cpus: int,
    total: int | None,
    seconds: float | None,
    busy_s: float | None,
    used: int | None,
    moved: int | None,
    gap_s: float | None,
) -> LoadRates:
    memory = min(1.0, used / total) if used is not None and total else None
    known_s = (seconds or 0.0) - (gap_s or 0.0)
    if known_s <= 0:
        return LoadRates(None, memory, None)
    load = None if busy_s is None or cpus <= 0 else min(1.0, max(0.0, busy_s / known_s / cpus))
    return LoadRates(load, memory, None if moved is None else max(0.0, moved * 8 / known_s))
