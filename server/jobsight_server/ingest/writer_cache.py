"""The writer's cache between transactions: the nodes, and the pending ``shifts``.

One writing thread of one process uses it for its clusters (the writer role holds the lock), so it agrees with the
database. The ``CounterState`` here and in ``nodes`` is the true one; ``samples`` and ``batches`` lack the amounts of
pending ``shifts``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from jobsight_server.ingest.counter_state import CounterState, dump_state, load_state
from jobsight_server.ingest.shifts import Shift, read_shifts
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage.engine import write_many
from jobsight_server.storage.schema import nodes

_CHANGED = tuple(column.name for column in nodes.c if not column.primary_key)
# By the driver: SQLAlchemy's named parameters cost more than the rest of the statement.
_UPDATE_NODE = f"UPDATE nodes SET {', '.join(f'{name} = ?' for name in _CHANGED)} WHERE id = ?"


@dataclass(slots=True)
class CachedNode:
    """A cached node; ``values`` are the columns of its row that change.

    ``newest`` is a boot and the largest sequence of it that is stored.
    """

    id: int
    state: CounterState
    values: dict[str, Any]
    newest: tuple[str | None, int] = None, -1


class WriterCache:
    """Filled from the database when empty; emptied when a transaction fails. ``clusters``: None is all."""

    def __init__(self, clusters: frozenset[str] | None = None) -> None:
        self._clusters = clusters
        self._nodes: dict[tuple[str, str], CachedNode] = {}
        self.known_shifts: dict[int, list[Shift]] | None = None  # None: not read yet

    def node(self, connection: Connection, batch: Batch) -> CachedNode | None:
        """Return the node from the cache or the database; None if it was never seen."""
        key = (batch.cluster, batch.node)
        known = self._nodes.get(key)
        if known is None:
            where = (nodes.c.cluster == batch.cluster) & (nodes.c.name == batch.node)
            row = connection.execute(select(nodes).where(where)).mappings().first()
            if row is None:
                return None
            known = self._nodes[key] = CachedNode(row["id"], load_state(row["counters"], row["last_time"]), dict(row))
        return known

    def create_node(self, connection: Connection, batch: Batch, received_at: float) -> CachedNode:
        """Add a new node to the database and the cache."""
        state = CounterState(boot_id=batch.boot_id, time=batch.time[0])
        values: dict[str, Any] = {
            "cluster": batch.cluster,
            "name": batch.node,
            "boot_id": batch.boot_id,
            "cpus": batch.cpus,
            "memory_total_bytes": batch.memory_total_bytes,
            "interfaces": "[]",
            "counters": dump_state(state),
            "agent": "{}",
            "machine": None,
            "first_time": batch.time[0],
            "last_time": batch.time[0],
            "received_at": received_at,
            "clock_skew_s": None,
            "two_hosts_at": None,
            **dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0),
        }
        node_id = connection.execute(insert(nodes).values(values).returning(nodes.c.id)).scalar_one()
        node = self._nodes[batch.cluster, batch.node] = CachedNode(
            node_id, state, {"id": node_id, **values}, (batch.boot_id, -1)
        )
        return node

    def shifts(self, connection: Connection) -> dict[int, list[Shift]]:
        """Return the pending shifts, by node."""
        if self.known_shifts is None:
            self.known_shifts = read_shifts(connection, self._clusters)
        return self.known_shifts

    def keep_shifts(self, node_id: int, shifts: list[Shift]) -> None:
        """Cache the node's shifts, as written."""
        assert self.known_shifts is not None
        if shifts:
            self.known_shifts[node_id] = shifts
        else:
            self.known_shifts.pop(node_id, None)

    def forget(self) -> None:
        """Empty the cache, which may no longer agree with the database."""
        self._nodes.clear()
        self.known_shifts = None


def write_nodes(connection: Connection, changed: Collection[CachedNode]) -> None:
    """Write these nodes from the cache."""
    write_many(connection, _UPDATE_NODE, [_row(node) for node in changed])


def _row(node: CachedNode) -> tuple[Any, ...]:
    row = node.values | {"counters": dump_state(node.state)}
    for name in ("interfaces", "agent", "machine"):
        if row[name] is not None and not isinstance(row[name], str):
            row[name] = msgspec.json.encode(row[name]).decode()
    return *(row[name] for name in _CHANGED), node.id
