"""Writes a group of batches in one transaction: nodes, samples, marks and what was acknowledged.

One writing thread of one process calls this (the writer role holds the lock), so what it remembers of the nodes
between transactions is what the database holds. ``State`` in memory and in ``nodes`` is the true one; ``samples`` and
``batches`` hold it less what ``shifts`` still has to add there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
from sqlalchemy import Connection, Engine, insert, select, text

from jobsight_server.ingest.anchors import Anchor, dump_anchor
from jobsight_server.ingest.chain import anchor_before, rejoin
from jobsight_server.ingest.counters import Corrected, State, correct, dump_state, load_state
from jobsight_server.ingest.refusals import Refusal, bound_quarantine, count_rejected, write_refusal
from jobsight_server.ingest.shifts import Amounts, Shift, added, amounts_at, as_stored, read_shifts, step, write_shifts
from jobsight_server.ingest.wire import Batch
from jobsight_server.storage import late_batches
from jobsight_server.storage.schema import nodes
from jobsight_server.storage.tallies import add_tallies

_SAMPLES = (
    "INSERT INTO samples (node_id, time, net_in_bytes, net_out_bytes, cpu_busy_s, memory_used_bytes, gap_s) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_BATCH = (
    "INSERT INTO batches (node_id, boot_id, sequence, checksum, first_time, last_time, samples, received_at, "
    "counters) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MARK = "INSERT INTO marks (node_id, job_id, event, time) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ACKNOWLEDGED = "SELECT checksum FROM batches WHERE node_id = ? AND boot_id = ? AND sequence = ?"
# A node's shifts are read and written together with each late batch; beyond so many, one is worked in first.
_MOST_SHIFTS = 100
# Made once: building an UPDATE for each node cost more than writing its samples.
_UPDATE_NODE = text(
    f"UPDATE nodes SET {', '.join(f'{c.name} = :{c.name}' for c in nodes.c if not c.primary_key)} WHERE id = :id"
)


@dataclass(frozen=True, slots=True)
class _Statements:
    """The statements of the hot path in the driver's own parameter style."""

    samples: str
    batch: str
    mark: str
    acknowledged: str
    late: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A decoded batch, the checksum of its payload, and when it came."""

    batch: Batch
    checksum: int
    received_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a submission: ``stored``, ``duplicate`` or ``conflict``."""

    status: str
    samples: int = 0


@dataclass(slots=True)
class _Node:
    """A node as the writer remembers it; ``values`` are the columns of its row that change."""

    id: int
    state: State
    values: dict[str, Any]


class SampleStore:
    """Applies groups of submissions and refusals; forgets what it remembered when a transaction fails."""

    def __init__(
        self,
        engine: Engine,
        assumed_speed_bps: float,
        quarantine_bytes: int,
        late_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``late_s``: how old readings are, when they are stored, that the profiler is to look at as late."""
        self._engine = engine
        self._assumed_speed_bps = assumed_speed_bps
        self._quarantine_bytes = quarantine_bytes
        self._late_s = late_s
        self._clock = clock
        self._nodes: dict[tuple[str, str], _Node] = {}
        self._shifts: dict[int, list[Shift]] | None = None  # None: not read yet
        placeholder = "?" if engine.dialect.name == "sqlite" else "%s"
        statements = (_SAMPLES, _BATCH, _MARK, _ACKNOWLEDGED, late_batches.INSERT)
        self._sql = _Statements(*(statement.replace("?", placeholder) for statement in statements))

    def apply(
        self,
        submissions: Sequence[Submission],
        refusals: Sequence[Refusal] = (),
        rejected: Mapping[str, int] = MappingProxyType({}),
    ) -> list[Outcome]:
        """Commits all of it or nothing; one outcome per submission. ``rejected``: how many were, by label.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refused; nothing was stored.
        """
        tally: Counter[tuple[str, str]] = Counter()
        committed = False
        try:
            with self._engine.begin() as connection:
                group = _Group(connection, self, self._sql, self._assumed_speed_bps, tally)
                outcomes = [group.add(submission) for submission in submissions]
                group.write(self._clock(), self._late_s)
                self._settle(connection)
                for refusal in refusals:
                    write_refusal(connection, refusal, tally)
                if refusals:
                    bound_quarantine(connection, self._quarantine_bytes, tally)
                count_rejected(rejected, tally)
                add_tallies(connection, tally)
            committed = True
        finally:
            if not committed:
                self._forget()
        return outcomes

    def settle(self) -> bool:
        """One step of what late batches have changed (see ``shifts``); returns whether there is more to do.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database refused; the step is still to be made.
        """
        settled = False
        try:
            if self._shifts is None:
                with self._engine.connect().execution_options(reading=True) as connection:
                    self._shifts = read_shifts(connection)
            if self._shifts:
                with self._engine.begin() as connection:
                    self._settle(connection)
            settled = True
        finally:
            if not settled:
                self._forget()
        return bool(self._shifts)

    def _settle(self, connection: Connection) -> None:
        """One step, where there is one to make: no transaction waits for more."""
        for node_id, shifts in self.shifts(connection).items():
            self.keep_shifts(node_id, step(connection, node_id, shifts))
            return

    def shifts(self, connection: Connection) -> dict[int, list[Shift]]:
        """What is under way, by node."""
        if self._shifts is None:
            self._shifts = read_shifts(connection)
        return self._shifts

    def keep_shifts(self, node_id: int, shifts: list[Shift]) -> None:
        """Remembers the node's shifts, as they were written."""
        assert self._shifts is not None
        if shifts:
            self._shifts[node_id] = shifts
        else:
            self._shifts.pop(node_id, None)

    def _forget(self) -> None:
        self._nodes.clear()
        self._shifts = None

    def node(self, connection: Connection, batch: Batch) -> _Node | None:
        """The node as remembered, or as the database has it; None for one that was never seen."""
        key = (batch.cluster, batch.node)
        known = self._nodes.get(key)
        if known is None:
            where = (nodes.c.cluster == batch.cluster) & (nodes.c.name == batch.node)
            row = connection.execute(select(nodes).where(where)).mappings().first()
            if row is None:
                return None
            known = self._nodes[key] = _Node(row["id"], load_state(row["counters"], row["last_time"]), dict(row))
        return known

    def create_node(self, connection: Connection, batch: Batch, received_at: float) -> _Node:
        state = State(batch.boot_id, batch.time[0])
        values: dict[str, Any] = {
            "cluster": batch.cluster,
            "name": batch.node,
            "boot_id": batch.boot_id,
            "cpus": batch.cpus,
            "memory_total_bytes": batch.memory_total_bytes,
            "interfaces": "[]",
            "counters": dump_state(state),
            "agent": "{}",
            "first_time": batch.time[0],
            "last_time": batch.time[0],
            "received_at": received_at,
            "clock_skew_s": None,
            **dict.fromkeys(("samples", "wraps", "resets", "boots", "missing"), 0),
        }
        node_id = connection.execute(insert(nodes).values(values).returning(nodes.c.id)).scalar_one()
        node = self._nodes[batch.cluster, batch.node] = _Node(node_id, state, {"id": node_id, **values})
        return node


class _Group:
    """The batches of one transaction; rows are gathered and written together."""

    def __init__(
        self,
        connection: Connection,
        store: SampleStore,
        sql: _Statements,
        assumed_speed_bps: float,
        tally: Counter[tuple[str, str]],
    ) -> None:
        self._connection = connection
        self._store = store
        self._sql = sql
        self._assumed_speed_bps = assumed_speed_bps
        self._tally = tally
        self._samples: list[tuple[Any, ...]] = []
        self._marks: list[tuple[int, str, str, float]] = []
        self._spans: list[tuple[int, float, float]] = []
        self._touched: dict[int, _Node] = {}

    def add(self, submission: Submission) -> Outcome:
        batch = submission.batch
        self._tally["batches_received", ""] += 1
        node = self._store.node(self._connection, batch)
        is_new = node is None
        if node is None:
            node = self._store.create_node(self._connection, batch, submission.received_at)
        else:
            checksum = self._connection.exec_driver_sql(
                self._sql.acknowledged, (node.id, batch.boot_id, batch.sequence)
            ).scalar()
            if checksum is not None:
                same = checksum == submission.checksum
                self._tally["batches_duplicate" if same else "batches_quarantined", ""] += 1
                return Outcome("duplicate" if same else "conflict")
        self._store_batch(submission, node, is_new)
        self._tally["batches_stored", ""] += 1
        return Outcome("stored", len(batch.time))

    def _store_batch(self, submission: Submission, node: _Node, is_new: bool) -> None:
        batch, speed = submission.batch, self._assumed_speed_bps
        late = not is_new and batch.time[0] <= node.values["last_time"]
        shifts = self._store.shifts(self._connection).get(node.id, [])
        if late:
            self.write_samples()  # what this batch is joined to must be in the tables
            before = anchor_before(self._connection, node.id, batch.time[0], shifts)
        else:
            before = None if is_new else node.state
        corrected = correct(batch, before, speed)
        self._samples += [(node.id, *row) for row in as_stored(corrected.rows, shifts)]
        less = -amounts_at(shifts, batch.time[0])
        anchor = Anchor(less.to_state(corrected.first), less.to_state(corrected.last), batch.interfaces)
        self._connection.exec_driver_sql(
            self._sql.batch,
            (
                node.id,
                batch.boot_id,
                batch.sequence,
                submission.checksum,
                batch.time[0],
                batch.time[-1],
                len(batch.time),
                submission.received_at,
                dump_anchor(anchor),
            ),
        )
        self._spans.append((node.id, batch.time[0], batch.time[-1]))
        self._marks += [(node.id, mark.job, mark.event, batch.time[mark.index]) for mark in batch.marks]
        if late:
            self._tally["batches_late", ""] += 1
            self.write_samples()
            off = rejoin(self._connection, node.id, batch, corrected.last, shifts, speed)
            if off is not None:
                self._shift(node, shifts, *off)
        self._remember(submission, node, corrected, newest=batch.time[-1] >= node.values["last_time"])

    def _shift(self, node: _Node, shifts: Sequence[Shift], since: float, amounts: Amounts) -> None:
        """Everything of the node from ``since`` on is off by ``amounts``."""
        self._tally["batches_late_shifting", ""] += 1
        under_way = added(shifts, since, amounts)
        write_shifts(self._connection, node.id, under_way)
        while len(under_way) > _MOST_SHIFTS:
            under_way = step(self._connection, node.id, under_way)
        self._store.keep_shifts(node.id, under_way)
        if node.state.time >= since:
            node.state = amounts.to_state(node.state)

    def _remember(self, submission: Submission, node: _Node, corrected: Corrected, newest: bool) -> None:
        batch, values = submission.batch, node.values
        for name in ("wraps", "resets", "boots", "missing"):
            count = getattr(corrected, name)
            values[name] += count
            self._tally[f"counters_{name}", ""] += count
        values["samples"] += len(batch.time)
        values["first_time"] = min(values["first_time"], batch.time[0])
        values["received_at"] = submission.received_at
        if newest:
            node.state = corrected.last
            values["last_time"] = batch.time[-1]
            values["boot_id"] = batch.boot_id
            values["cpus"] = batch.cpus
            values["memory_total_bytes"] = batch.memory_total_bytes
            values["interfaces"] = batch.interfaces
            values["agent"] = batch.agent
            values["clock_skew_s"] = batch.sent_at and batch.sent_at - submission.received_at
        self._touched[node.id] = node

    def write_samples(self) -> None:
        """Writes the rows gathered so far; counts those whose node and time were already there."""
        if self._samples:
            result = self._connection.exec_driver_sql(self._sql.samples, self._samples)
            self._tally["samples_stored", ""] += result.rowcount
            self._tally["samples_overlapping", ""] += len(self._samples) - result.rowcount
            self._samples = []

    def write(self, now: float, late_s: float) -> None:
        """Writes all that is left of the group, and names the batches that are late by ``late_s`` at ``now``."""
        self.write_samples()
        late = [(*span, now) for span in self._spans if now - span[1] >= late_s]
        if late:
            self._connection.exec_driver_sql(self._sql.late, late)
        if self._marks:
            self._connection.exec_driver_sql(self._sql.mark, self._marks)
        if self._touched:
            self._connection.execute(_UPDATE_NODE, [_node_row(node) for node in self._touched.values()])


def _node_row(node: _Node) -> dict[str, Any]:
    row = node.values | {"counters": dump_state(node.state)}
    for name in ("interfaces", "agent"):
        if not isinstance(row[name], str):
            row[name] = msgspec.json.encode(row[name]).decode()
    return row
