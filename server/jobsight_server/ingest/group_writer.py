"""The batches of one transaction: corrected one after the other, their rows collected and written together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, insert, select

from jobsight_server.ingest.counters import (
    BatchEnds,
    Corrected,
    CounterState,
    correct,
    dump_ends,
    dump_state,
    load_state,
)
from jobsight_server.ingest.shifts import (
    Shift,
    added,
    amounts_at,
    as_stored,
    counters_before,
    read_shifts,
    relink,
    step,
    write_shifts,
)
from jobsight_server.ingest.wire import Batch, BatchJob, BatchOutcome, Submission
from jobsight_server.storage import late_batches
from jobsight_server.storage.engine import fetch, write_many
from jobsight_server.storage.gpu_columns import GpuColumns, pack_gpus
from jobsight_server.storage.job_columns import JobColumns, dump_columns
from jobsight_server.storage.job_ids import job_key
from jobsight_server.storage.sample_columns import NAMES, Totals
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


def _node_row(node: CachedNode) -> tuple[Any, ...]:
    row = node.values | {"counters": dump_state(node.state)}
    for name in ("interfaces", "agent", "machine"):
        if row[name] is not None and not isinstance(row[name], str):
            row[name] = msgspec.json.encode(row[name]).decode()
    return *(row[name] for name in _CHANGED), node.id


log = logging.getLogger(__name__)

_SAMPLES = f"INSERT INTO samples (node_id, {', '.join(NAMES)}) VALUES (?{', ?' * len(NAMES)}) ON CONFLICT DO NOTHING"
_BATCH = (
    "INSERT INTO batches (node_id, boot_id, sequence, checksum, first_time, last_time, samples, received_at, "
    "counters, uptime_s, owner_present) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MARK = "INSERT INTO marks (node_id, job_id, event, time) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_JOB = (
    "INSERT INTO job_samples (node_id, job_id, first_time, last_time, samples, peak_bytes, readings) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_GPUS = "INSERT INTO gpu_samples (node_id, first_time, last_time, readings) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ACKNOWLEDGED = (
    "SELECT sequence, last_sequence, checksum FROM batches WHERE node_id = ? AND boot_id = ? AND sequence <= ? "
    "ORDER BY sequence DESC LIMIT 1"
)
_NEWEST = "SELECT sequence, last_sequence FROM batches WHERE node_id = ? AND boot_id = ? ORDER BY sequence DESC LIMIT 1"
# A batch of another boot between batches of this one, by time of receipt and by the times of the readings. Boots of one
# host follow each other.
_BETWEEN = (
    "SELECT other.boot_id FROM batches other JOIN batches own ON own.node_id = other.node_id AND own.boot_id = ? "
    "AND own.received_at <= other.received_at AND own.first_time < other.last_time AND own.first_time > ? "
    "WHERE other.node_id = ? AND other.boot_id <> ? AND other.first_time > ? AND other.first_time < ? LIMIT 1"
)
_HOUR_S = 3600.0
# A node's shifts are read and written with each late batch; beyond this many, one is applied first.
_MOST_SHIFTS = 100

_JobRow = tuple[int, str, float, float, int, int | None, str]


class GroupWriter:
    """Collects the batches of one transaction in ``add`` and writes them in ``write``."""

    def __init__(
        self,
        connection: Connection,
        cache: WriterCache,
        assumed_speed_bps: float,
        counts: Counter[tuple[str, str]],
    ) -> None:
        self._connection = connection
        self._cache = cache
        self._assumed_speed_bps = assumed_speed_bps
        self._counts = counts
        self._samples: list[tuple[Any, ...]] = []
        self._batches: list[tuple[Any, ...]] = []
        self._marks: list[tuple[int, str, str, float]] = []
        self._jobs: list[_JobRow] = []
        self._gpus: list[tuple[int, float, float, bytes]] = []
        self._spans: list[tuple[int, float, float]] = []
        self._touched: dict[int, CachedNode] = {}

    def add(self, submission: Submission) -> BatchOutcome:
        batch = submission.batch
        self._counts["batches_received", ""] += 1
        node = self._cache.node(self._connection, batch)
        is_new = node is None
        if node is None:
            node = self._cache.create_node(self._connection, batch, submission.received_at)
        elif batch.sequence <= self._newest(node, batch.boot_id):
            self.write_rows()
            found = fetch(self._connection, _ACKNOWLEDGED, (node.id, batch.boot_id, batch.sequence))
            first, last, checksum = found[0] if found else (-1, None, 0)
            if batch.sequence <= (first if last is None else last):
                same = checksum == submission.checksum or last is not None
                self._counts["batches_duplicate" if same else "batches_quarantined", ""] += 1
                return BatchOutcome("duplicate" if same else "conflict")
        self._store_batch(submission, node, is_new)
        self._counts["batches_stored", ""] += 1
        return BatchOutcome("stored", len(batch.time))

    def _newest(self, node: CachedNode, boot_id: str) -> int:
        """Return the largest stored sequence of this boot; -1 if none is."""
        if node.newest[0] != boot_id:
            found = fetch(self._connection, _NEWEST, (node.id, boot_id))
            sequence, last = found[0] if found else (-1, None)
            node.newest = boot_id, sequence if last is None else last
        return node.newest[1]

    def _store_batch(self, submission: Submission, node: CachedNode, is_new: bool) -> None:
        batch, speed = submission.batch, self._assumed_speed_bps
        if batch.boot_id != node.values["boot_id"]:
            self._look_for_two_hosts(submission, node)
        late = not is_new and batch.time[0] <= node.values["last_time"]
        shifts = self._cache.shifts(self._connection).get(node.id, [])
        if late:
            self.write_rows()  # the tables must have the batches to join
            before = counters_before(self._connection, node.id, batch.time[0], shifts)
        else:
            before = None if is_new else node.state
        corrected = correct(batch, before, speed)
        self._samples += [(node.id, *row) for row in as_stored(corrected.rows, shifts)]
        ends = BatchEnds(corrected.first, corrected.last, batch.interfaces)
        if shifts:
            ends = ends.plus(Totals() - amounts_at(shifts, batch.time[0]))
        self._batches.append(
            (
                node.id,
                batch.boot_id,
                batch.sequence,
                submission.checksum,
                batch.time[0],
                batch.time[-1],
                len(batch.time),
                submission.received_at,
                dump_ends(ends),
                batch.machine and batch.machine.uptime_s,
                batch.machine and batch.machine.owner_present,
            )
        )
        if batch.boot_id == node.newest[0]:
            node.newest = batch.boot_id, max(batch.sequence, node.newest[1])
        self._spans.append((node.id, batch.time[0], batch.time[-1]))
        self._marks += [(node.id, job_key(mark.job), mark.event, batch.time[mark.index]) for mark in batch.marks]
        self._jobs += _job_rows(node.id, batch)
        if batch.gpus:
            columns = [GpuColumns(one.gpu, one.busy_percent, one.used_bytes, one.total_bytes) for one in batch.gpus]
            self._gpus.append((node.id, batch.time[0], batch.time[-1], pack_gpus(batch.time, columns)))
        if late:
            self._counts["batches_late", ""] += 1
            self.write_rows()
            off = relink(self._connection, node.id, batch, corrected.last, shifts, speed)
            if off is not None:
                self._shift(node, shifts, *off)
        self._remember(submission, node, corrected, newest=batch.time[-1] >= node.values["last_time"])

    def _look_for_two_hosts(self, submission: Submission, node: CachedNode) -> None:
        """Report nodes whose boots alternate, as with a copied ``agent.toml``."""
        self.write_rows()
        batch, since = submission.batch, submission.batch.time[0] - _HOUR_S
        asked = (batch.boot_id, since, node.id, batch.boot_id, since, batch.time[-1])
        found = fetch(self._connection, _BETWEEN, asked)
        if not found:
            return
        ((other,),) = found
        before, node.values["two_hosts_at"] = node.values["two_hosts_at"], submission.received_at
        if before is None or before // _HOUR_S != submission.received_at // _HOUR_S:  # once an hour
            log.warning(
                "two hosts send as node %s of cluster %s, boots %s and %s: set `node` in the agent.toml of each",
                *(batch.node, batch.cluster, other, batch.boot_id),
            )

    def _shift(self, node: CachedNode, shifts: Sequence[Shift], since: float, amounts: Totals) -> None:
        """Add ``amounts`` to everything of the node from ``since`` on."""
        self._counts["batches_late_shifting", ""] += 1
        under_way = added(shifts, since, amounts)
        write_shifts(self._connection, node.id, under_way)
        while len(under_way) > _MOST_SHIFTS:
            under_way = step(self._connection, node.id, under_way)
        self._cache.keep_shifts(node.id, under_way)
        if node.state.time >= since:
            node.state += amounts

    def _remember(self, submission: Submission, node: CachedNode, corrected: Corrected, newest: bool) -> None:
        batch, values = submission.batch, node.values
        for name in ("wraps", "resets", "boots", "missing"):
            count = getattr(corrected, name)
            values[name] += count
            self._counts[f"counters_{name}", ""] += count
        values["samples"] += len(batch.time)
        values["first_time"] = min(values["first_time"], batch.time[0])
        values["received_at"] = submission.received_at
        if newest:
            node.state = corrected.last
            values["last_time"] = batch.time[-1]
            values["boot_id"] = batch.boot_id
            values["cpus"] = batch.cpus
            values["memory_total_bytes"] = batch.memory_total_bytes
            values["interfaces"] = [*batch.interfaces, *map(_uncounted, batch.uncounted)]
            values["agent"] = batch.agent
            values["machine"] = batch.machine
            values["clock_skew_s"] = batch.sent_at and batch.sent_at - submission.received_at
        self._touched[node.id] = node

    def write_rows(self) -> None:
        """Write the batches and samples collected so far; count the samples whose node and time existed already."""
        write_many(self._connection, _BATCH, self._batches)
        self._write_counted("samples", _SAMPLES, self._samples)
        self._batches, self._samples = [], []

    def write(self, now: float, late_s: float) -> None:
        """Write the rest of the group, and record the batches that are late by ``late_s`` at ``now``."""
        self.write_rows()
        late = [(*span, now) for span in self._spans if now - span[1] >= late_s]
        write_many(self._connection, late_batches.INSERT, late)
        write_many(self._connection, _MARK, self._marks)
        self._write_counted("job_samples", _JOB, self._jobs)
        write_many(self._connection, _GPUS, self._gpus)
        write_many(self._connection, _UPDATE_NODE, [_node_row(node) for node in self._touched.values()])

    def _write_counted(self, name: str, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write the rows; count those that existed already."""
        stored = write_many(self._connection, statement, rows)
        self._counts[f"{name}_stored", ""] += stored
        self._counts[f"{name}_overlapping", ""] += len(rows) - stored


def _uncounted(name: str) -> dict[str, Any]:
    """Return a port whose traffic no counter shows, as a node's interfaces are stored."""
    return {"name": name, "kind": "infiniband", "width_bits": 64, "speed_bps": None, "uncounted": True}


def _job_rows(node_id: int, batch: Batch) -> list[_JobRow]:
    """Return a row for each job of ``batch``, for ``_JOB``."""
    return [
        (
            node_id,
            job_key(job.job),
            batch.time[job.index[0]],
            batch.time[job.index[-1]],
            len(job.index),
            job.peak_bytes,
            dump_columns(_columns(batch, job)),
        )
        for job in batch.jobs
    ]


def _columns(batch: Batch, job: BatchJob) -> JobColumns:
    used = [
        None if anon is None or shmem is None else anon + shmem
        for anon, shmem in zip(job.anon_bytes, job.shmem_bytes, strict=True)
    ]
    return JobColumns([batch.time[index] for index in job.index], job.cpu_s, used, job.file_bytes)
