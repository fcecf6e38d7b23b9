"""The presence of machines: from the batches of agents, from owners' reports, and from silence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, select

from jobsight_predictor.reliability.sessions import SessionSettings, Sighting, owner_state, seen, silent
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.schema import boots, nodes, owner_reports, readings
from jobsight_server.systems.ranking.learning import ReliabilityState
from jobsight_server.systems.ranking.rows import (
    MachineRow,
    Name,
    Taken,
    facts_of_node,
    installation_of,
    last_of_some,
    machine_of_row,
    read_machines,
)
from jobsight_server.systems.ranking.tables import machines

# A batch may be committed after one received later: rounds look back this long for it.
_OVERLAP_S = 120.0
# Time to wait for a gap in the sequence, before it counts as silence.
_MISSING_S = 90.0
# Batches that crossed on the way have both arrived by then.
_SETTLE_S = 2.0
_AT_ONCE = 20_000


class SeenBatch(NamedTuple):
    """The presence of a machine, from a batch."""

    node_id: int
    boot_id: str
    sequence: int
    last_sequence: int
    first_time: float
    last_time: float
    received_at: float
    uptime_s: float | None
    owner_present: bool | None


# A batch of many hours has several rows.
_MADE = {
    "boot_id": boots.c.boot_id,
    "first_time": func.min(readings.c.first_time),
    "last_time": func.max(readings.c.last_time),
}
_SAME = (boots.c.boot_id, *(readings.c[name] for name in SeenBatch._fields if name not in _MADE))
_BATCHES = (
    select(*(_MADE[name] if name in _MADE else readings.c[name] for name in SeenBatch._fields))
    .join(boots, boots.c.id == readings.c.boot)
    .where(readings.c.received_at > bindparam("since"), readings.c.received_at <= bindparam("until"))
    .group_by(*_SAME)
    .order_by(readings.c.node_id, readings.c.received_at, readings.c.sequence)
)


def take_batches(connection: Connection, settings: SessionSettings, state: ReliabilityState, now: float) -> Taken:
    """Take in batches received since ``state.batches_until``, at most some 20,000 at once. Changes no row."""
    since = min(state.batches_until, now)  # the server's clock may have been set back
    settled = now - _SETTLE_S
    top = last_of_some(connection, readings.c.received_at, since, settled, _AT_ONCE)
    until = max(settled, since) if top is None else top
    by_node: dict[int, list[SeenBatch]] = {}
    for batch in map(SeenBatch._make, connection.execute(_BATCHES, {"since": since - _OVERLAP_S, "until": until})):
        by_node.setdefault(batch.node_id, []).append(batch)
    described = _describe(connection, list(by_node))
    found = read_machines(connection, [name for name, _ in described.values()])
    for node_id, batches in by_node.items():
        if node_id not in described:
            continue
        name, node = described[node_id]
        machine = found[name]
        taken = False
        for batch in in_order(batches):
            installation = installation_of(node.machine) if batch.boot_id == node.boot_id else None
            took = take_batch(machine, batch, installation, settings, now, since)
            if took is None:
                break
            taken |= took
        if taken:
            facts = facts_of_node(node.cpus, node.memory_total_bytes, node.machine)
            machine.shown |= facts != machine.facts
            machine.facts = facts
    return Taken([one for one in found.values() if one.touched], until, top is not None)


def in_order(batches: Iterable[SeenBatch]) -> list[SeenBatch]:
    """Sort batches by the appearance of their boots, then by the agent's numbers."""
    boots: dict[str, int] = {}
    ordered = sorted(batches, key=lambda batch: (batch.received_at, batch.first_time))
    for batch in ordered:
        boots.setdefault(batch.boot_id, len(boots))
    return sorted(ordered, key=lambda batch: (boots[batch.boot_id], batch.sequence))


def take_batch(
    machine: MachineRow, batch: SeenBatch, installation: str | None, settings: SessionSettings, now: float, since: float
) -> bool | None:
    """Take one batch in; False for a known one, or one too late to count; None to wait for an earlier one."""
    if batch.boot_id == machine.boot_id:
        known = machine.sequence
        if known is not None and batch.last_sequence <= known:
            return False
        last = machine.presence.seen_s
        hole = known is not None and batch.sequence > known + 1
        gap = last is not None and batch.first_time - last > settings.silence_s
        if hole and gap and now - batch.received_at < _MISSING_S:
            return None
    elif batch.boot_id in machine.earlier_boots or _found_again(machine, batch, since):
        return False
    else:
        machine.begin_boot(batch.boot_id, batch.first_time)
    _see(machine, batch, installation, settings)
    machine.sequence = batch.last_sequence
    machine.received_at = max(batch.received_at, machine.received_at or 0.0)
    return True


def _see(machine: MachineRow, batch: SeenBatch, installation: str | None, settings: SessionSettings) -> None:
    at_first, at_last = _from(machine, batch, settings), batch.last_time
    span = max(at_last - at_first, 0.0)
    uptime_s = None if batch.uptime_s is None or batch.uptime_s < span else batch.uptime_s - span
    first = Sighting(at_first, batch.boot_id, uptime_s, installation=installation)
    machine.take(seen(machine.presence, first, settings))
    # The agent was reading all the time, if seldom; a long batch is not silence.
    machine.presence = replace(machine.presence, seen_s=max(at_first, at_last), uptime_s=batch.uptime_s)
    last = Sighting(max(at_first, at_last), batch.boot_id, batch.uptime_s, batch.owner_present, installation)
    machine.take(seen(machine.presence, last, settings))


def _from(machine: MachineRow, batch: SeenBatch, settings: SessionSettings) -> float:
    """Return the begin of the batch; readings of job hooks may be a little older than the last regular one."""
    last = machine.presence.seen_s
    if last is not None and 0.0 < last - batch.first_time <= settings.clock_slack_s and batch.last_time >= last:
        return last
    return batch.first_time


def _found_again(machine: MachineRow, batch: SeenBatch, since: float) -> bool:
    """Return whether a batch received before ``since`` is of a boot long forgotten, as after many boots."""
    return batch.received_at <= since and machine.booted is not None and batch.first_time <= machine.booted


def _describe(connection: Connection, ids: list[int]) -> dict[int, tuple[Name, Any]]:
    names = ("id", "cluster", "name", "cpus", "memory_total_bytes", "machine", "boot_id")
    query = select(*(nodes.c[name] for name in names))
    return {row.id: ((row.cluster, row.name), row) for row in rows_of(connection, query, nodes.c.id, ids)}


_REPORTS_AT_ONCE = 10_000
_DEFAULT_CLUSTER = "default"


def end_silent(connection: Connection, settings: SessionSettings, now: float) -> list[MachineRow]:
    """End the sessions of machines that sent nothing for the time of silence. Changes no row.

    By the server's clock: readings may be old because they waited in a spool.
    """
    silence_s = settings.silence_s
    query = select(machines).where(machines.c.since.is_not(None), machines.c.received_at < now - silence_s)
    found = [machine_of_row(row) for row in connection.execute(query).mappings()]
    for machine in found:
        last = machine.presence.seen_s or 0.0
        step = silent(machine.presence, max(now, last + silence_s + 1.0), settings)
        machine.take(step)
    return found


def take_owner_reports(connection: Connection, settings: SessionSettings, now: float) -> list[MachineRow]:
    """Take in reports in the order of their time, and delete them. Changes no machine's row."""
    rows = connection.execute(select(owner_reports).order_by(owner_reports.c.id).limit(_REPORTS_AT_ONCE)).all()
    if not rows:
        return []
    names = _names(connection, rows)
    found = read_machines(connection, list(dict.fromkeys(names)))
    for row, name in zip(rows, names, strict=True):
        machine = found[name]
        last = machine.presence.seen_s
        if machine.boot_id is None:  # without an agent, the report itself is the sign of the machine
            sighting = Sighting(row.time if last is None else max(row.time, last), owner=row.present)
            machine.take(seen(machine.presence, sighting, settings))
            machine.received_at = now
        elif last is not None:
            machine.take(owner_state(machine.presence, max(row.time, last), row.present))
    connection.execute(delete(owner_reports).where(owner_reports.c.id <= rows[-1].id))
    return list(found.values())


def _names(connection: Connection, rows: Sequence[Any]) -> list[Name]:
    """Return the machines of the reports; an unknown one is of the agents' default cluster."""
    bare = sorted({row.name for row in rows if not row.cluster})
    clusters: dict[str, list[str]] = {}
    for row in rows_of(connection, select(machines.c.cluster, machines.c.name), machines.c.name, bare):
        clusters.setdefault(row.name, []).append(row.cluster)
    return [(row.cluster or (clusters.get(row.name) or [_DEFAULT_CLUSTER])[0], row.name) for row in rows]
