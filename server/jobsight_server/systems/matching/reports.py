"""Stores reports of the state of resources, each by itself; reports nodes that have an agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, insert, select, update

from jobsight_scheduler.matching.records import decoded
from jobsight_server.ground.answers import Record
from jobsight_server.ground.event_counts import add_event_counts
from jobsight_server.profiler.usage import speeds_of_links
from jobsight_server.queries.node_states import Machines
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.owner_reports import report_owner
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.schema import nodes
from jobsight_server.systems.matching.catalogue import decode_attributes, decode_capacities
from jobsight_server.systems.matching.edit import require_room
from jobsight_server.systems.matching.resource_state import (
    Capacities,
    CapacityReport,
    ResourceError,
    ResourceReport,
    Value,
    check_name,
    refused,
    state_row,
)
from jobsight_server.systems.matching.store_matches import begin_change
from jobsight_server.systems.matching.tables import resources

REJECTED = "resource_reports_rejected"
"""Counted by reason."""

_KEPT = ("attributes", "capacities", "state_at", "owner_present", "source", "version")


class RejectedReport(Record):
    """A report that was not stored, and why."""

    name: str
    reason: str


class ReportsTaken(Record):
    """Numbers of reports that changed a resource or created one, and the rejected reports."""

    stored: int
    created: int
    rejected: list[RejectedReport]


def take_reports(
    engine: Engine,
    reports: Sequence[ResourceReport | dict[str, Any]],
    source: str,
    now: float,
    future_s: float,
    refuse_late: bool = True,
) -> ReportsTaken:
    """Store the last valid report of each resource; count the rejected ones by reason.

    A report that is not newer than the stored state is late; without ``refuse_late`` it is ignored and not counted.

    Raises:
        ResourceError: there would be too many resources.
    """
    last = {entry.name if isinstance(entry, ResourceReport) else str(entry.get("name", "")): entry for entry in reports}
    if not last:
        return ReportsTaken(0, 0, [])
    with engine.begin() as connection:
        change = begin_change(connection)
        names = [name for name in last if "\0" not in name]
        stored = rows_of(connection, select(resources), resources.c.name, names)
        known: dict[str, Any] = {row.name: row for row in stored}
        changed: list[dict[str, Any]] = []
        new: list[dict[str, Any]] = []
        rejected: list[RejectedReport] = []
        counts: Counter[tuple[str, str]] = Counter()
        for name, entry in last.items():
            try:
                with refused():
                    report = entry if isinstance(entry, ResourceReport) else decoded(entry, ResourceReport, "report")
                if not refuse_late and name in known and (report.time or now) <= known[name].state_at:
                    continue
                row = _row(report, known.get(name), now, future_s)
            except ResourceError as error:
                rejected.append(RejectedReport(name[:200], str(error)))
                counts[REJECTED, "late" if error.status == 409 else "invalid"] += 1
                continue
            row |= {"source": source, "version": change.version}
            (changed if name in known else new).append(row)
            if report.owner_present is not None:
                _report_owner(connection, report, row)
        if changed:
            values: dict[str, Any] = {name: bindparam(name) for name in _KEPT}
            connection.execute(update(resources).where(resources.c.id == bindparam("number")).values(values), changed)
        if new:
            require_room(connection, len(new))
            connection.execute(insert(resources), new)
        add_event_counts(connection, counts)
    return ReportsTaken(len(changed), len(new), rejected)


def _row(report: ResourceReport, before: Any, now: float, future_s: float) -> dict[str, Any]:
    check_name(report.name, "name")
    at = now if report.time is None else report.time
    if at > now + future_s:
        raise ResourceError(f"time = {at:.0f} is {at - now:.0f} s ahead of the server's clock; set the clock")
    at = min(at, now)
    if before is None and report.type is None:
        raise ResourceError("unknown resource; give its type to have it created")
    if before is not None and report.type not in (None, before.type):
        raise ResourceError(f"type = {report.type!r}, but it is a {before.type!r}; delete it first")
    if before is not None and at < before.state_at:
        raise ResourceError(f"measured {before.state_at - at:.0f} s before the state that is stored", 409)
    row: dict[str, Any] = {"state_at": at, "owner_present": report.owner_present}
    if before is None:
        new = {"name": report.name, "type": report.type, "cost": 1.0, "is_static": False}
        return row | state_row(report, ({}, {})) | new
    if report.owner_present is None:
        row["owner_present"] = before.owner_present
    stored = decode_attributes(before.attributes), decode_capacities(before.capacities)
    return row | state_row(report, stored) | {"number": before.id}


def _report_owner(connection: Connection, report: ResourceReport, row: dict[str, Any]) -> None:
    """Pass the presence of an owner on to the resource's machine: ``CLUSTER/NODE``, or by its attributes."""
    attributes = decode_attributes(row["attributes"])
    cluster, node = attributes.get("cluster"), attributes.get("node")
    if not (isinstance(cluster, str) and isinstance(node, str) and cluster and node):
        cluster, _, node = report.name.rpartition("/")
    report_owner(connection, cluster or None, node, bool(report.owner_present), row["state_at"])


SOURCE, NODES = "agents", "compute"
"""The source of nodes that are resources, and their type."""

LOOK_AT_NODES_S = 15.0

_LONGEST_STEP_S = 600.0
_HOUR_S = 3600.0


def report_nodes(engine: Engine, clock: Callable[[], float], expiry_s: float, machines: Machines) -> int:
    """Report every node with a batch within ``expiry_s``; return the number of changed ones.

    The attribute ``reliability`` is the chance that a job of an hour succeeds there, where ``machines`` knows it.
    """
    now = clock()
    with engine.connect().execution_options(reading=True) as connection:
        reports = list(_reports(connection, now - expiry_s, now, machines))
    taken = take_reports(engine, reports, SOURCE, now, future_s=expiry_s, refuse_late=False)
    return taken.stored + taken.created


def _reports(connection: Connection, since: float, now: float, machines: Machines) -> Iterator[ResourceReport]:
    names = ("id", "cluster", "name", "cpus", "memory_total_bytes", "interfaces", "last_time")
    found = connection.execute(select(*(nodes.c[name] for name in names)).where(nodes.c.received_at >= since)).all()
    chances = machines.chances(connection, _HOUR_S, now)
    for node in found:
        samples = read_samples(connection, node.id, node.last_time, node.last_time, 1).rows()[:-3:-1]
        if samples:
            attributes: dict[str, Value] = {"cluster": node.cluster, "node": node.name}
            if (chance := chances.get((node.cluster, node.name))) is not None:
                attributes["reliability"] = round(chance, 4)
            yield ResourceReport(
                f"{node.cluster}/{node.name}",
                NODES,
                min(samples[0][0], now),
                attributes,
                _capacities(node, samples),
            )


def _capacities(node: Any, samples: list[Any]) -> Capacities:
    """Return the use between the last two samples; unknown use counts as none."""
    last = samples[0]
    found: Capacities = {"slots": CapacityReport(float(node.cpus), _rate(samples, 3) or 0.0)}
    if node.memory_total_bytes:
        found["memory_gib"] = CapacityReport(node.memory_total_bytes / 2**30, (last[4] or 0) / 2**30)
    speed_bps = sum(speed or 0.0 for speed in speeds_of_links(node.interfaces))
    if speed_bps:
        moved = (_rate(samples, 1) or 0.0) + (_rate(samples, 2) or 0.0)
        found["bandwidth_mbps"] = CapacityReport(speed_bps / 1e6, moved * 8 / 1e6)
    return found


def _rate(samples: list[Any], column: int) -> float | None:
    """Return the growth of a cumulative column per second; None if unknown."""
    if len(samples) < 2:
        return None
    (last, before) = samples
    step_s = last[0] - before[0]
    if not 0 < step_s <= _LONGEST_STEP_S or last[column] is None or before[column] is None or last[5] != before[5]:
        return None
    return float(max(0.0, (last[column] - before[column]) / step_s))
