"""Which machines are taken: processors that running jobs hold."""

from __future__ import annotations

from sqlalchemy import Connection, select, text

from jobsight_server.storage.engine import fetch
from jobsight_server.systems.ranking.tables import machines

_RUNNING = (
    "SELECT jobs.cluster, job_nodes.node, job_nodes.processors, jobs.start FROM jobs "
    "JOIN job_nodes ON job_nodes.run_id = jobs.id WHERE jobs.state = 'running'"
)
_UPDATE = text("UPDATE machines SET busy_processors = :busy, version = :version WHERE id = :id")


def count_busy(connection: Connection, version: int) -> bool:
    """Writes the processors held on each machine; returns whether any number changed.

    A run that started before the machine's present boot has ended, even if its end was never logged.
    """
    held: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for cluster, node, processors, start in fetch(connection, _RUNNING, ()):
        held.setdefault((cluster, node), []).append((start, processors))
    changes = []
    query = select(machines.c.id, machines.c.cluster, machines.c.name, machines.c.busy_processors, machines.c.booted)
    for row in connection.execute(query):
        runs = held.get((row.cluster, row.name), ())
        busy = sum(processors for start, processors in runs if row.booted is None or start >= row.booted)
        if busy != row.busy_processors:
            changes.append({"id": row.id, "busy": busy, "version": version})
    if changes:
        connection.execute(_UPDATE, changes)
    return bool(changes)
