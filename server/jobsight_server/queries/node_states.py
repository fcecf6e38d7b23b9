"""The state of nodes: freshness of their samples, load now, and the chance that a job succeeds there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from sqlalchemy import Connection

from jobsight_predictor.reliability.sessions import Ending
from jobsight_server.ground.answers import Record, Share
from jobsight_server.storage.engine import fetch, pieces
from jobsight_server.storage.readings.counters import corrected
from jobsight_server.storage.readings.sample_columns import MODULUS
from jobsight_server.storage.readings.samples import CHUNK_S

UP_WITHIN_S = 120.0
LATE_WITHIN_S = 3600.0

Status = Literal["up", "late", "silent", "unknown"]
STATUSES: tuple[Status, ...] = ("up", "late", "silent", "unknown")
"""``unknown``: no agent ever reported from the node."""


def status(age_s: float) -> Status:
    """Return ``up``, ``late`` or ``silent`` for a node last seen ``age_s`` seconds ago.

    An agent sends at least once a minute, so two minutes are one batch lost, an hour is more than a restart.

    >>> [status(age) for age in (5, 600, 86400)]
    ['up', 'late', 'silent']
    """
    if age_s <= UP_WITHIN_S:
        return "up"
    return "late" if age_s <= LATE_WITHIN_S else "silent"


def seen_at(received_at: float, last_time: float, clock_skew_s: float | None) -> float:
    """Return the time when the node was last seen, by the server's clock.

    With an agent's clock, that is the arrival of its newest batch, even if old readings waited in its spool or its
    clock is wrong. A replay has no clock: it is the time of the last reading.

    >>> seen_at(1000.0, 400.0, 0.2), seen_at(1000.0, 400.0, None), seen_at(1000.0, 1030.0, None)
    (1000.0, 400.0, 1000.0)
    """
    return received_at if clock_skew_s is not None else min(received_at, last_time)


NodeName = tuple[str, str]
"""Cluster and name."""


class MachineSession(Record):
    """The machine was available from ``start`` to ``end``; the present session has neither an end nor an ending."""

    start: float
    end: float | None
    ending: Ending | None


class Reliability(Record):
    """A machine's reliability for its jobs.

    ``reliability``: the chance that a job of ``run_time_s`` succeeds there, between ``low`` and ``high``: that the
    machine stays available for so long (``stays``) and does not fail it (``sound``). If not ``known``, it has no
    history. ``evictions`` and ``failures`` count against the machine, ``user_failures`` do not. ``since``: the begin
    of the present session; ``history``: sessions since ``history_since``.
    ``lost_jobs`` were evicted, requeued or failed since then, and cost ``lost_processor_hours``.
    """

    run_time_s: float
    reliability: Share
    low: Share
    high: Share
    known: bool
    stays: Share
    sound: Share
    since: float | None
    sessions: int
    successes: int
    evictions: int
    failures: int
    user_failures: int
    lost_jobs: int
    lost_processor_hours: float
    history_since: float
    history: list[MachineSession]


class MachineLoss(Record):
    """A machine's losses: its jobs evicted, requeued or failed since ``since``, and their processor-hours on all of
    their nodes."""

    cluster: str
    name: str
    jobs: int
    processor_hours: float
    since: float


class Machines:
    """A source of machines' reliability: this one knows none."""

    def chances(self, connection: Connection, run_time_s: float, now: float) -> Mapping[NodeName, float | None]:
        """Return every machine that an agent, a log or its owner ever named, with the chance that a job of
        ``run_time_s`` succeeds there; None for one without history."""
        return MappingProxyType({})

    def reliability(self, connection: Connection, name: NodeName, run_time_s: float, now: float) -> Reliability | None:
        """Return a machine's reliability; None if the machine is not known."""
        return None

    def worst(self, connection: Connection, cluster: str | None, now: float) -> MachineLoss | None:
        """Return the machine that lost most jobs, of this cluster or of all; None if none did."""
        return None


LoadFigure = Literal["load", "memory", "bandwidth"]
FIGURES: tuple[LoadFigure, ...] = ("load", "memory", "bandwidth")

_OVER_S = 120.0  # the last two intervals of readings once a minute
_BEFORE_S = 900.0
# The rows of the last reading and of one some minutes before.
_LOADS = (
    "SELECT n.id, n.cluster, n.name, n.received_at, n.last_time, n.clock_skew_s, n.cpus, n.memory_total_bytes, "
    "r.boot, b.boot_id, b.interfaces, r.packed FROM nodes n "
    "LEFT JOIN readings r ON r.node_id = n.id AND n.received_at >= ? AND r.first_time >= coalesce("
    f"(SELECT max(s.first_time) FROM readings s WHERE s.node_id = n.id AND s.first_time <= n.last_time - {_OVER_S} "
    f"AND s.first_time > n.last_time - {_BEFORE_S + CHUNK_S}), n.last_time - {_OVER_S}) "
    "LEFT JOIN boots b ON b.id = r.boot "
)
_ORDER = "ORDER BY n.id, r.first_time, r.id"


class NodeLoad(Record):
    """One node: busy processors and used memory as shares of its capacity, bits per second in the
    busier direction.

    Null where it is silent, or has no such readings.
    """

    cluster: str
    name: str
    status: Status
    age_s: float
    load: Share | None
    memory: Share | None
    bandwidth_bps: float | None


_Rates = tuple[float | None, float | None, float | None]
"""Load, memory and bandwidth, as in ``NodeLoad``."""

_UNKNOWN: _Rates = (None, None, None)


def node_loads(connection: Connection, now: float, ids: Sequence[int] | None = None) -> dict[NodeName, NodeLoad]:
    """Return the last minutes of the nodes with these ``ids`` or of all with agents, in order of cluster and name."""
    parts = [None] if ids is None else pieces(ids)
    found = [load for part in parts for load in _read(connection, now, part)]
    return {(load.cluster, load.name): load for load in sorted(found, key=lambda load: (load.cluster, load.name))}


def _read(connection: Connection, now: float, ids: Sequence[int] | None) -> Iterator[NodeLoad]:
    some = "" if ids is None else f"WHERE n.id IN ({', '.join('?' * len(ids))}) "
    rows = fetch(connection, _LOADS + some + _ORDER, (now - LATE_WITHIN_S, *(ids or ())))
    known: dict[int, list[Any]] = {}
    parts = []
    for number, *node, boot, boot_id, interfaces, packed in rows:
        known[number] = node
        if packed is not None:
            parts.append((number, boot, boot_id, interfaces, packed))
    read, ids_read = corrected(parts), np.array(list(known))
    begins, ends = (np.searchsorted(read.node, ids_read + more).tolist() for more in (0, 1))
    time = read.columns.time.data  # as plain numbers: numpy's search takes ten times as long for a node
    places = [
        [*_places(time, begin, end, last_time)]
        for (_cluster, _name, _received_at, last_time, *_), begin, end in zip(known.values(), begins, ends, strict=True)
    ]
    # In one step: that of a node costs as much.
    chosen = iter(read.columns[np.array([at for of in places for at in of], np.intp)].rows())
    for (cluster, name, *times, cpus, total), of in zip(known.values(), places, strict=True):
        age_s, own = max(0.0, now - seen_at(*times)), list(islice(chosen, len(of)))
        state = status(age_s)
        yield NodeLoad(cluster, name, state, age_s, *(_UNKNOWN if state == "silent" else _rates(cpus, total, own)))


def _places(time: Sequence[float], begin: int, end: int, last_time: float) -> Iterator[int]:
    """Yield the places, from ``begin`` to before ``end``, of the reading at ``last_time`` and of the one before."""
    at, before = bisect_left(time, last_time, begin, end), bisect_right(time, last_time - _OVER_S, begin, end) - 1
    if at < end and time[at] == last_time:
        yield at
        if before >= begin and time[before] > last_time - _BEFORE_S:
            yield before


def _rates(cpus: int, total: int | None, rows: Sequence[tuple[Any, ...]]) -> _Rates:
    """Return the load from the second of these readings, some minutes before, to the first, the last one."""
    if not rows:
        return _UNKNOWN
    (time, *moved_to, busy_to, used, gap_to), *before = (row[:6] for row in rows)
    memory = min(1.0, used / total) if used is not None and total else None
    for begin, *moved_from, busy_from, _, gap_from in before:
        known_s = time - begin - (gap_to - gap_from)
        if known_s > 0:
            busy_known, moved_known = None not in (busy_from, busy_to), None not in (*moved_from, *moved_to)
            busy = (busy_to - busy_from) / known_s / cpus if busy_known and cpus > 0 else None
            load = None if busy is None else min(1.0, max(0.0, busy))
            if not moved_known:
                return load, memory, None
            moved = [(b - a) % MODULUS * 8 / known_s for a, b in zip(moved_from, moved_to, strict=True)]
            return load, memory, max(moved)
    return None, memory, None
