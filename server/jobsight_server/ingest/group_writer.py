"""The batches of one transaction: corrected one after the other, their rows collected and written together."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from sqlalchemy import Connection, insert, select

from jobsight_server.ground.job_ids import job_key
from jobsight_server.ingest.rising import Last, last_of, only_rises
from jobsight_server.ingest.wire import Batch, BatchJob, BatchMachine, BatchOutcome, Submission
from jobsight_server.storage.engine import fetch, updating, write_many
from jobsight_server.storage.job_columns import JobColumns, dump_columns
from jobsight_server.storage.readings import late_batches
from jobsight_server.storage.readings.counters import EVENTS, corrected
from jobsight_server.storage.readings.gpu_columns import GpuColumns, pack_gpus
from jobsight_server.storage.readings.samples import CHUNK_S
from jobsight_server.storage.readings.sent import BatchInterface, SentRow, interfaces_of, pack, unpack
from jobsight_server.storage.schema import boots, nodes

_CHANGED = tuple(column.name for column in nodes.c if column.name not in {"id", "cluster", "name"})
# By the driver: SQLAlchemy's named parameters cost more than the rest of the statement.
_UPDATE_NODE = updating(nodes, *_CHANGED)


@dataclass(slots=True)
class CachedNode:
    """A cached node; ``values`` are the columns of its row that change.

    Of one boot: its rows of ``boots`` by their interfaces as stored, the row of the last batch and its interfaces as
    sent, and the largest sequence that is stored.
    """

    id: int
    values: dict[str, Any]
    last: Last | None = None
    boot_id: str | None = None
    boots: dict[bytes, int] = field(default_factory=dict)
    sent: tuple[list[BatchInterface], bytes] | None = None
    newest: int = -1


CachedNodes = dict[tuple[str, str], CachedNode]
"""By cluster and name: those of which a batch came since the last transaction that failed."""


def _node_row(node: CachedNode) -> tuple[Any, ...]:
    row = node.values.copy()
    for name in ("interfaces", "agent", "machine"):
        if row[name] is not None and not isinstance(row[name], str):
            row[name] = msgspec.json.encode(row[name]).decode()
    return *(row[name] for name in _CHANGED), node.id


log = logging.getLogger(__name__)

ROW = (
    "INSERT INTO readings (node_id, first_time, last_time, samples, received_at, boot, sequence, last_sequence, "
    "checksum, uptime_s, owner_present, packed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MARK = "INSERT INTO marks (node_id, job_id, event, time) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_JOB = (
    "INSERT INTO job_samples (node_id, job_id, first_time, last_time, samples, peak_bytes, readings) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_GPUS = "INSERT INTO gpu_samples (node_id, first_time, last_time, readings) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_BOOTS = "SELECT interfaces, id FROM boots WHERE node_id = ? AND boot_id = ? ORDER BY id"
_SENT = "SELECT r.node_id, r.boot, b.boot_id, b.interfaces, r.packed FROM readings r JOIN boots b ON b.id = r.boot "
_BEFORE = (
    _SENT + "WHERE r.node_id = ? AND r.first_time <= ? AND r.samples > 0 ORDER BY r.first_time DESC, r.id DESC LIMIT 1"
)
_OVERLAPPING = _SENT + "WHERE r.node_id = ? AND r.first_time >= ? AND r.first_time <= ? AND r.last_time >= ?"
_ACKNOWLEDGED = (
    "SELECT sequence, last_sequence, checksum FROM readings WHERE boot = ? AND sequence <= ? "
    "ORDER BY sequence DESC LIMIT 1"
)
_NEWEST = "SELECT last_sequence FROM readings WHERE boot = ? ORDER BY sequence DESC LIMIT 1"
# A batch of another boot between batches of this one, by time of receipt and by the times of the readings. Boots of one
# host follow each other.
_BETWEEN = (
    "SELECT b.boot_id FROM readings other JOIN boots b ON b.id = other.boot JOIN readings own ON "
    "own.node_id = other.node_id AND own.received_at <= other.received_at AND own.first_time < other.last_time "
    "AND own.first_time > ? JOIN boots o ON o.id = own.boot AND o.boot_id = ? "
    "WHERE other.node_id = ? AND b.boot_id <> ? AND other.first_time > ? AND other.first_time < ? LIMIT 1"
)
_HOUR_S = 3600.0
# A port whose traffic no counter shows, besides its name, as a node's interfaces are stored.
_UNCOUNTED = {"kind": "infiniband", "width_bits": 64, "speed_bps": None, "uncounted": True}

_JobRow = tuple[int, str, float, float, int, int | None, str]


class GroupWriter:
    """Collects the batches of one transaction in ``add`` and writes them in ``write``."""

    def __init__(
        self,
        connection: Connection,
        cached: CachedNodes,
        assumed_speed_bps: float,
        counts: Counter[tuple[str, str]],
    ) -> None:
        self._connection = connection
        self._cached = cached
        self._assumed_speed_bps = assumed_speed_bps
        self._counts = counts
        self._rows: list[tuple[Any, ...]] = []
        self._marks: list[tuple[int, str, str, float]] = []
        self._jobs: list[_JobRow] = []
        self._gpus: list[tuple[int, float, float, bytes]] = []
        self._spans: list[tuple[int, float, float]] = []
        self.late: list[tuple[int, float]] = []
        self._touched: dict[int, CachedNode] = {}

    def add(self, submission: Submission) -> BatchOutcome:
        batch = submission.batch
        self._counts["batches_received", ""] += 1
        node = self._cached.get((batch.cluster, batch.node)) or self._node(batch, submission.received_at)
        self._enter(node, batch.boot_id)
        if batch.sequence <= node.newest:
            outcome = self._known(node, submission)
            if outcome is not None:
                counted = "batches_duplicate" if outcome.status == "duplicate" else "batches_quarantined"
                self._counts[counted, ""] += 1
                return outcome
        if batch.boot_id != node.values["boot_id"]:
            self._look_for_two_hosts(submission, node)
        if batch.time[0] <= node.values["last_time"]:
            self._counts["batches_late", ""] += 1
            self.late.append((node.id, batch.time[0]))
        for part in _parts(batch):
            self._store(part, submission, node)
        self._counts["batches_stored", ""] += 1
        node.newest = max(batch.sequence, node.newest)
        self._spans.append((node.id, batch.time[0], batch.time[-1]))
        self._marks += [(node.id, job_key(mark.job), mark.event, batch.time[mark.index]) for mark in batch.marks]
        self._jobs += [_job_row(node.id, batch, job) for job in batch.jobs]
        if batch.gpus:
            columns = [GpuColumns(one.gpu, one.busy_percent, one.used_bytes, one.total_bytes) for one in batch.gpus]
            self._gpus.append((node.id, batch.time[0], batch.time[-1], pack_gpus(batch.time, columns)))
        return BatchOutcome("stored", len(batch.time))

    def _node(self, batch: Batch, received_at: float) -> CachedNode:
        """Return the node from the database, or a new one, and cache it."""
        where = (nodes.c.cluster == batch.cluster) & (nodes.c.name == batch.node)
        row = self._connection.execute(select(nodes).where(where)).mappings().first()
        values = dict(row) if row else {
            **{name: getattr(batch, name) for name in ("cluster", "boot_id", "cpus", "memory_total_bytes")},
            "name": batch.node,
            "interfaces": "[]",
            "agent": "{}",
            "first_time": batch.time[0],
            "last_time": batch.time[0],
            "received_at": received_at,
            **dict.fromkeys(("machine", "clock_skew_s", "two_hosts_at")),
            **dict.fromkeys(("samples", *EVENTS), 0),
        }  # fmt: skip
        if row is None:
            new = self._connection.execute(insert(nodes).values(values).returning(nodes.c.id))
            values |= {"id": new.scalar_one(), "last_time": -inf}  # its first batch is not late
        node = self._cached[batch.cluster, batch.node] = CachedNode(values["id"], values)
        return node

    def _enter(self, node: CachedNode, boot_id: str) -> None:
        """Keep the rows of this boot, and its largest stored sequence, with the node."""
        if node.boot_id == boot_id:
            return
        found = fetch(self._connection, _BOOTS, (node.id, boot_id))
        node.boot_id, node.boots, node.sent = boot_id, dict(found), None
        self.write_rows()
        stored = [row for number in node.boots.values() for row in fetch(self._connection, _NEWEST, (number,))]
        node.newest = max((last for (last,) in stored), default=-1)

    def _known(self, node: CachedNode, submission: Submission) -> BatchOutcome | None:
        """Return the outcome of a batch whose number is stored; None if it is not."""
        self.write_rows()
        sequence = submission.batch.sequence
        for boot in node.boots.values():
            for first, last, checksum in fetch(self._connection, _ACKNOWLEDGED, (boot, sequence)):
                if sequence <= last:
                    # Of a row of several batches, only their numbers are known.
                    same = checksum == submission.checksum or first != last
                    return BatchOutcome("duplicate" if same else "conflict")
        return None

    def _boot(self, node: CachedNode, batch: Batch) -> tuple[int, bytes]:
        """Return the id of the batch's boot with its interfaces, which may be new, and these as stored."""
        if node.sent is None or node.sent[0] != batch.interfaces:
            known = [replace(one, speed_bps=one.speed_bps or self._assumed_speed_bps) for one in batch.interfaces]
            node.sent = batch.interfaces, msgspec.json.encode(known)
        text = node.sent[1]
        if text not in node.boots:
            values = {"node_id": node.id, "boot_id": batch.boot_id, "interfaces": text}
            new = self._connection.execute(insert(boots).values(values).returning(boots.c.id))
            node.boots[text] = new.scalar_one()
        return node.boots[text], text

    def _store(self, batch: Batch, submission: Submission, node: CachedNode) -> None:
        """Store a batch, or a part of a long one."""
        boot, text = self._boot(node, batch)
        late = batch.time[0] <= node.values["last_time"]
        new = self._without_stored(node.id, batch) if late else batch
        self._counts["samples_stored", ""] += len(new.time)
        self._counts["samples_overlapping", ""] += len(batch.time) - len(new.time)
        counters = [column for both in zip(new.bytes_in, new.bytes_out, strict=True) for column in both]
        packed = pack(
            (new.time, new.cpu_busy_s, new.boottime_s, None),
            [new.memory_used_bytes, *counters],
        )
        if late or not only_rises(node.last, boot, new, counters):
            self._count_events(node, new.time, (node.id, boot, batch.boot_id, text, packed))
        machine = batch.machine or BatchMachine()
        self._rows.append(
            (
                *(node.id, batch.time[0], batch.time[-1], len(new.time), submission.received_at, boot),
                *(batch.sequence, batch.sequence, submission.checksum, machine.uptime_s, machine.owner_present),
                packed,
            )
        )
        if batch.time[-1] >= node.values["last_time"]:
            node.last = None if late else last_of(boot, new, counters)
            self._remember_newest(batch, submission, node)
        node.values["samples"] += len(batch.time)
        node.values["first_time"] = min(node.values["first_time"], batch.time[0])
        node.values["received_at"] = submission.received_at
        self._touched[node.id] = node

    def _without_stored(self, node_id: int, batch: Batch) -> Batch:
        """Return a late batch without the readings whose times the node has already."""
        self.write_rows()  # the table must have the batches beside it
        overlap = (node_id, batch.time[0] - CHUNK_S, batch.time[-1], batch.time[0])
        taken: set[float] = set()
        for *_, text, packed in fetch(self._connection, _OVERLAPPING, overlap):
            taken.update(unpack([packed], len(interfaces_of(text)))[0][0].tolist())
        return _some(batch, [index for index, time in enumerate(batch.time) if time not in taken])

    def _count_events(self, node: CachedNode, time: list[float], row: SentRow) -> None:
        """Count wraps, resets, boots and missing values of the readings at these times, which follow the row before."""
        self.write_rows()
        found = corrected([*fetch(self._connection, _BEFORE, (node.id, time[0] if time else -inf)), row])
        own = np.isin(found.columns.time, time)
        for name in EVENTS:
            count = int(found.events[name][own].sum())
            node.values[name] += count
            self._counts[f"counters_{name}", ""] += count

    def _look_for_two_hosts(self, submission: Submission, node: CachedNode) -> None:
        """Report nodes whose boots alternate, as with a copied ``agent.toml``."""
        self.write_rows()
        batch, since = submission.batch, submission.batch.time[0] - _HOUR_S
        asked = (since, batch.boot_id, node.id, batch.boot_id, since, batch.time[-1])
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

    def _remember_newest(self, batch: Batch, submission: Submission, node: CachedNode) -> None:
        values = node.values
        values["last_time"] = batch.time[-1]
        for name in ("boot_id", "cpus", "memory_total_bytes", "agent", "machine"):
            values[name] = getattr(batch, name)
        values["interfaces"] = [*batch.interfaces, *({"name": name, **_UNCOUNTED} for name in batch.uncounted)]
        values["clock_skew_s"] = batch.sent_at and batch.sent_at - submission.received_at

    def write_rows(self) -> None:
        """Write the rows of the batches collected so far."""
        write_many(self._connection, ROW, self._rows)
        self._rows = []

    def write(self, now: float, late_s: float) -> None:
        """Write the rest of the group, and record the batches that are late by ``late_s`` at ``now``."""
        self.write_rows()
        late = [(*span, now) for span in self._spans if now - span[1] >= late_s]
        write_many(self._connection, late_batches.INSERT, late)
        write_many(self._connection, _MARK, self._marks)
        stored = write_many(self._connection, _JOB, self._jobs)
        self._counts["job_samples_stored", ""] += stored
        self._counts["job_samples_overlapping", ""] += len(self._jobs) - stored
        write_many(self._connection, _GPUS, self._gpus)
        write_many(self._connection, _UPDATE_NODE, [_node_row(node) for node in self._touched.values()])


def _parts(batch: Batch) -> list[Batch]:
    """Return the batch, or where it is too long for one row, parts of it."""
    if batch.time[-1] - batch.time[0] <= CHUNK_S:
        return [batch]
    parts, begin = [], 0
    while begin < len(batch.time):
        end = bisect_right(batch.time, batch.time[begin] + CHUNK_S)
        parts.append(_some(batch, range(begin, end)))
        begin = end
    return parts


def _some(batch: Batch, which: Sequence[int]) -> Batch:
    """Return the batch with these readings alone."""

    def of(column: list[Any]) -> list[Any]:
        return [column[index] for index in which]

    return replace(
        batch,
        **{name: of(getattr(batch, name)) for name in ("time", "memory_used_bytes", "cpu_busy_s")},
        **{name: [of(column) for column in getattr(batch, name)] for name in ("bytes_in", "bytes_out")},
        boottime_s=batch.boottime_s and of(batch.boottime_s),
    )


def _job_row(node_id: int, batch: Batch, job: BatchJob) -> _JobRow:
    """Return the row of a job of ``batch``, for ``_JOB``."""
    time = [batch.time[index] for index in job.index]
    both = zip(job.anon_bytes, job.shmem_bytes, strict=True)
    used = [None if anon is None or shmem is None else anon + shmem for anon, shmem in both]
    columns = JobColumns(time, job.cpu_s, used, job.file_bytes)
    return node_id, job_key(job.job), time[0], time[-1], len(time), job.peak_bytes, dump_columns(columns)
