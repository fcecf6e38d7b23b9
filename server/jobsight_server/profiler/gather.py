"""What is known of the nodes of runs, and the profiles made from it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from jobsight_server.profiler.idle import Idle, idle_before, idle_beside
from jobsight_server.profiler.memory import inside
from jobsight_server.profiler.profile import OnNode, Profile, profile, shifted
from jobsight_server.profiler.readings import Boundaries, Readings, read_boundaries, read_readings
from jobsight_server.profiler.ready import Sender, Senders
from jobsight_server.profiler.sharing import Presence, Presences, Run, neighbours, read_presences
from jobsight_server.profiler.usage import Stay


def profiles_of(
    connection: Connection, runs: Sequence[Run], senders: Senders, stop: threading.Event | None = None
) -> list[tuple[Run, Profile]]:
    """The profile of each run, by what is in the tables now; fewer when ``stop`` is set meanwhile."""
    presences = read_presences(connection, runs)
    found: list[tuple[Run, Profile]] = []
    for run in runs:
        if stop and stop.is_set():
            break
        found.append((run, profile(run, _on_nodes(connection, run, senders, presences))))
    return found


def _on_nodes(connection: Connection, run: Run, senders: Senders, presences: Presences) -> list[OnNode]:
    if not run.nodes or run.end <= run.start:
        return []
    return [_on_node(connection, run, node, senders.find(run.cluster, node), presences) for node in run.nodes]


def _on_node(connection: Connection, run: Run, node: str, sender: Sender | None, presences: Presences) -> OnNode:
    at, readings, idle = Boundaries(run.start, run.end), None, None
    beside = neighbours(run, presences.get((run.cluster, node), ()))
    if sender is not None:
        at = read_boundaries(connection, sender.id, run.job_id, run.start, run.end, run.next_start)
        readings = read_readings(connection, sender.id, at.start, at.end)
        idle = _idle(connection, sender.id, readings, at, beside.near)
    return OnNode(
        node=node,
        processors=run.nodes[node],
        readings=readings,
        boundaries=at,
        neighbours=beside,
        idle=idle,
    )


def _idle(
    connection: Connection, node_id: int, readings: Readings, at: Boundaries, near: Sequence[Presence]
) -> Idle | None:
    """The memory of the node without the run: as read next to its life, else as last known."""
    stay = Stay(at.start, at.end, 1)
    if np.count_nonzero(inside(readings, stay)) < 2:
        return None  # nothing to take it from
    others = [shifted(other, at.offset_s) for other in near]
    beside = idle_beside(readings, stay, at.start_marked, at.end_marked, others)
    return beside or idle_before(connection, node_id, at.start, others)
