"""Which finished runs can be profiled now: those whose samples are in, or have been waited for long enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, bindparam, text

from jobsight_server.profiler.sharing import Run

# Clocks of a node and its scheduler differ a little.
_SLACK_S = 1.0

_FINISHED = text(
    'SELECT id, cluster, job_id, "user", start, "end", processors, used_cpu_s, used_memory_bytes, recorded_at, '
    "(SELECT min(again.start) FROM jobs again WHERE again.cluster = jobs.cluster AND again.job_id = jobs.job_id "
    "AND again.start > jobs.start) "
    'FROM jobs WHERE profiled = :no AND state = \'ended\' AND ("end" > :end OR ("end" = :end AND id > :id)) '
    'ORDER BY "end", id LIMIT :limit'
)
_NODES_OF = text(
    "SELECT run_id, node, processors FROM job_nodes WHERE run_id IN :runs ORDER BY run_id, node"
).bindparams(bindparam("runs", expanding=True))
_SENDERS = text("SELECT cluster, name, id, last_time FROM nodes")
_LAST_BEFORE = text(
    "SELECT boot_id, sequence FROM batches WHERE node_id = :node_id AND last_time < :end "
    "ORDER BY last_time DESC LIMIT 1"
)
_FIRST_AFTER = text(
    "SELECT boot_id, sequence FROM batches WHERE node_id = :node_id AND last_time >= :end ORDER BY last_time LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Sender:
    """A node that has sent samples, and the time of its newest."""

    id: int
    last_time: float


class Senders:
    """Every node that has sent samples, found by the name that an accounting log gives it."""

    def __init__(self, connection: Connection) -> None:
        self._known = {
            (cluster, name): Sender(node_id, last_time)
            for cluster, name, node_id, last_time in connection.execute(_SENDERS)
        }

    def find(self, cluster: str, node: str) -> Sender | None:
        """The node of that very name, else of the short name before the first dot; None if it never sent any."""
        return self._known.get((cluster, node)) or self._known.get((cluster, node.partition(".")[0]))


def read_finished(connection: Connection, after: tuple[float, int], limit: int) -> list[Run]:
    """Ended runs that were not profiled yet, with their nodes, in order of (end, id), from behind ``after``."""
    key = {"no": False, "end": after[0], "id": after[1], "limit": limit}
    runs = [Run(*row) for row in connection.execute(_FINISHED, key)]
    if not runs:
        return []
    nodes: dict[int, dict[str, int]] = {}
    for run_id, node, processors in connection.execute(_NODES_OF, {"runs": [run.id for run in runs]}):
        nodes.setdefault(run_id, {})[node] = processors
    return [replace(run, nodes=nodes.get(run.id, {})) for run in runs]


def ready(connection: Connection, runs: Sequence[Run], senders: Senders, waited_since: float) -> list[Run]:
    """Those of ``runs`` whose samples are in, or whose record was read at or before ``waited_since``."""
    return [run for run in runs if run.recorded_at <= waited_since or _complete(connection, run, senders)]


def _complete(connection: Connection, run: Run, senders: Senders) -> bool:
    nodes = {node: senders.find(run.cluster, node) for node in run.nodes}
    return bool(nodes) and all(
        sender is not None
        and sender.last_time >= run.end + _SLACK_S
        and not _hole(connection, sender.id, run.end + _SLACK_S)
        for sender in nodes.values()
    )


def _hole(connection: Connection, node_id: int, end: float) -> bool:
    """Whether a batch about ``end`` may still be under way: a number is missing between those around it."""
    key: Mapping[str, float] = {"node_id": node_id, "end": end}
    before = connection.execute(_LAST_BEFORE, key).one_or_none()
    after = connection.execute(_FIRST_AFTER, key).one_or_none()
    if before is None or after is None:
        return False
    return bool(before.boot_id == after.boot_id and after.sequence > before.sequence + 1)
