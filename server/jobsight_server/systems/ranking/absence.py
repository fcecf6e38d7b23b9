"""Machines that are no longer heard from, and owners reported over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, select

from jobsight_predictor.reliability.resource_vector import new_record
from jobsight_predictor.reliability.sessions import Sighting, owner_state, seen, silent
from jobsight_server.storage.schema import owner_reports
from jobsight_server.systems.ranking.config import RankConfig
from jobsight_server.systems.ranking.rows import MachineRow, Name, machine_of_row, read_machines
from jobsight_server.systems.ranking.tables import machines

_AT_ONCE = 10_000
_KEYS_AT_ONCE = 500
_DEFAULT_CLUSTER = "default"


def end_silent(connection: Connection, config: RankConfig, now: float) -> list[MachineRow]:
    """Ends the sessions of machines of which nothing was received for the time of silence. Changes no row.

    By the server's clock: readings may be old because they waited in a spool.
    """
    silence_s = config.sessions.silence_s
    query = select(machines).where(machines.c.since.is_not(None), machines.c.received_at < now - silence_s)
    found = [machine_of_row(row) for row in connection.execute(query)]
    for machine in found:
        last = machine.presence.seen_s or 0.0
        step = silent(machine.presence, max(now, last + silence_s + 1.0), config.sessions)
        machine.take(step, new_record(config.vector))
    return found


def take_owner_reports(connection: Connection, config: RankConfig, now: float) -> list[MachineRow]:
    """Takes reports in, in the order in which they were made, and deletes them. Changes no machine's row."""
    rows = connection.execute(select(owner_reports).order_by(owner_reports.c.id).limit(_AT_ONCE)).all()
    if not rows:
        return []
    fresh = new_record(config.vector)
    names = _names(connection, rows)
    found = read_machines(connection, list(dict.fromkeys(names)), fresh)
    for row, name in zip(rows, names, strict=True):
        machine = found[name]
        last = machine.presence.seen_s
        if machine.boot_id is None:  # without an agent, the report itself is what shows the machine
            sighting = Sighting(row.time if last is None else max(row.time, last), owner=row.present)
            machine.take(seen(machine.presence, sighting, config.sessions), fresh)
            machine.received_at = now
        elif last is not None:
            machine.take(owner_state(machine.presence, max(row.time, last), row.present), fresh)
    connection.execute(delete(owner_reports).where(owner_reports.c.id <= rows[-1].id))
    return list(found.values())


def _names(connection: Connection, rows: Sequence[Any]) -> list[Name]:
    """The machines that the reports are about; one that is not known yet is of the agents' default cluster."""
    bare = sorted({row.name for row in rows if not row.cluster})
    clusters: dict[str, list[str]] = {}
    for begin in range(0, len(bare), _KEYS_AT_ONCE):
        query = select(machines.c.cluster, machines.c.name).where(
            machines.c.name.in_(bare[begin : begin + _KEYS_AT_ONCE])
        )
        for row in connection.execute(query):
            clusters.setdefault(row.name, []).append(row.cluster)
    return [(row.cluster or (clusters.get(row.name) or [_DEFAULT_CLUSTER])[0], row.name) for row in rows]
