"""Other runs on a run's nodes, and the part of the use attributed to the run.

(docs/use/definitions.md, Attribution)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from jobsight_server.accounting.runs import Failure
from jobsight_server.profiler.memory import AFTER_S, FRESH_S
from jobsight_server.profiler.values import Quantity
from jobsight_server.storage.engine import fetch

# Assumed time from the requested walltime to an end that was never logged.
_OVERTIME_S = 3600.0
_FOREVER = 1e18
# The runs first, by their end: the nodes' own index leads to every run ever on them.
ON_NODES = (
    'SELECT j.cluster, n.node, j.id, j.start, j."end", j.requested_walltime_s, n.processors '
    "FROM jobs j CROSS JOIN job_nodes n "
    'WHERE n.run_id = j.id AND j."end" > ? AND j.start < ? '
    "UNION ALL "
    'SELECT j.cluster, n.node, j.id, j.start, j."end", j.requested_walltime_s, n.processors '
    "FROM jobs j CROSS JOIN job_nodes n "
    'WHERE n.run_id = j.id AND j."end" IS NULL AND j.start < ?'
)


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A finished run, as far as its profile depends on the accounting log. Times are the scheduler's.

    ``next_start``: the next start of the same job, if any. ``nodes``: processors held on each node. ``failure``: the
    resource that ran out, if the log has it. It was suspended for ``suspended_s`` in all. ``processors`` were
    allocated, ``asked_processors`` requested if that is another number. ``memory_incomplete``: it used more than
    ``used_memory_bytes``; ``memory_with_cache``: these may include page cache, which it does not need;
    ``memory_is_virtual``: these and its request are address space. ``used``: as in ``jobs.used``.
    """

    id: int
    cluster: str
    job_id: str
    user: str
    start: float
    end: float
    processors: int | None
    used_cpu_s: float | None
    used_memory_bytes: int | None
    failure: Failure | None = None
    recorded_at: float = 0.0
    next_start: float | None = None
    suspended_s: float | None = None
    asked_processors: int | None = None
    memory_incomplete: bool | None = None
    memory_with_cache: bool | None = None
    memory_is_virtual: bool | None = None
    ended_abnormally: bool | None = None
    exit_status: int | None = None
    used: str | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> int:
        """Requested processors; 0 if unknown."""
        return self.asked_processors or self.held

    @property
    def held(self) -> int:
        """Allocated processors; 0 if unknown."""
        return self.processors if self.processors and self.processors > 0 else sum(self.nodes.values())

    @property
    def memory_quantity(self) -> Quantity:
        """Which memory the log has."""
        return "virtual" if self.memory_is_virtual else "with_cache" if self.memory_with_cache else "resident"

    @property
    def was_cut_short(self) -> bool:
        """Whether it was killed, cancelled, or failed."""
        return bool(self.ended_abnormally or self.exit_status or self.failure)

    @property
    def run_s(self) -> float:
        """Run time without suspended time."""
        return self.end - self.start - (self.suspended_s or 0.0)


class NodeRun(NamedTuple):
    """A run on a node; ``end`` is far in the future while it still runs."""

    run_id: int
    start: float
    end: float
    processors: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other runs of one node near a run's life: those that overlap it, and all of them."""

    overlapping: tuple[NodeRun, ...]
    near: tuple[NodeRun, ...]


class NodeHistory:
    """The runs that were on one node, in order of their start."""

    def __init__(self, runs: Iterable[NodeRun]) -> None:
        self._runs = sorted(runs, key=attrgetter("start"))
        self._starts = np.array([run.start for run in self._runs])
        self._ends = np.array([run.end for run in self._runs])
        # Of consecutive runs without a pause: the first, and the latest end so far.
        self._latest = np.maximum.accumulate(self._ends)
        self._firsts = np.append(0, np.flatnonzero(self._starts[1:] > self._latest[:-1]) + 1)

    def between(self, since: float, until: float) -> list[NodeRun]:
        """Return the runs present after ``since`` and before ``until``."""
        begun = int(np.searchsorted(self._starts, until, "left"))
        return [self._runs[i] for i in np.flatnonzero(self._ends[:begun] > since)]

    def occupied(self, since: float, until: float) -> list[tuple[float, float]]:
        """Return the result of ``between`` as times (start, end), with overlapping runs joined into one."""
        begun = int(np.searchsorted(self._starts, until, "left"))
        if not begun:
            return []
        firsts = self._firsts[: np.searchsorted(self._firsts, begun, "left")]
        ends = self._latest[np.append(firsts[1:], begun) - 1]
        late = ends > since
        return list(zip(self._starts[firsts[late]].tolist(), ends[late].tolist(), strict=True))


NodeHistories = Mapping[tuple[str, str], NodeHistory]


def read_node_histories(connection: Connection, runs: Sequence[EndedRun]) -> NodeHistories:
    """Read, for each (cluster, node name) of ``runs``, every run on it from a day before the first to an hour after the
    last.
    """
    if not runs:
        return {}
    since, until = min(run.start for run in runs) - FRESH_S, max(run.end for run in runs) + AFTER_S
    found: dict[tuple[str, str], list[NodeRun]] = {(run.cluster, node): [] for run in runs for node in run.nodes}
    rows = fetch(connection, ON_NODES, (since, until, until))
    for cluster, node, run_id, start, end, walltime_s, processors in rows:
        of_node = found.get((cluster, node))
        if of_node is not None:
            if end is None:
                end = _FOREVER if walltime_s is None else start + walltime_s + _OVERTIME_S
            of_node.append(NodeRun(run_id, start, end, processors))
    return {place: NodeHistory(there) for place, there in found.items()}


def neighbours(run: EndedRun, there: NodeHistory | None, since: float, until: float) -> Neighbours:
    """Return the other runs on a node of ``run``; near are those present between ``since`` and ``until``.

    At most a day before and an hour after its life are searched.
    """
    if there is None:
        return Neighbours((), ())
    first = min(run.start, max(since, run.start - FRESH_S))
    last = max(run.end, min(until, run.end + AFTER_S))
    near = tuple(other for other in there.between(first, last) if other.run_id != run.id)
    return Neighbours(tuple(o for o in near if o.start < run.end and o.end > run.start), near)


def attribution(processors: int, overlapping: Sequence[NodeRun]) -> str:
    """Return how a node's use can be attributed to a run that holds ``processors`` of it."""
    if not overlapping:
        return "exclusive"
    if processors <= 0 or any(other.processors <= 0 for other in overlapping):
        return "unknown"
    return "apportioned"
