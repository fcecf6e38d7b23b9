"""The memory that running jobs have used so far, kept up to date from arriving samples.

Only new samples are read: the lists and pages that show it cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection, Engine, delete, select

from jobsight_predictor.profile.running import grown
from jobsight_server.profiler.memory import idle_before
from jobsight_server.profiler.ready import SampledNode, SampledNodes, with_nodes
from jobsight_server.profiler.runs import (
    FRESH_S,
    EndedRun,
    NodeHistories,
    boundaries,
    neighbours,
    read_marks,
    read_node_histories,
)
from jobsight_server.profiler.sampled import has_cgroup, read_job_memory, shifted
from jobsight_server.storage.engine import RUNS, of_runs, pieces, upsert, write_many
from jobsight_server.storage.readings.sample_columns import Floats
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.schema import jobs, running_use

# Span of one read; also the longest delay by a silent node of its neighbours' readings.
_STEP_S = 3600.0
# Nodes are read at different seconds: needs the reading before the first new one too.
_BEFORE_S = 120.0
_RUNS_AT_ONCE = 100


_Memory = list[tuple[float, float]]
"""Times and bytes, rising in time."""

_Read = Callable[[Connection, int, str, float, float], _Memory]


class UseSoFar(NamedTuple):
    """``memory``: the largest sum over the run's nodes until ``until``, less their idle level, bytes per processor.

    ``idle_bytes`` is 0 where the run's own cgroups are read. ``growth`` of ``memory``, per second, over about the last
    ten minutes.
    """

    run_id: int
    until: float
    memory: float | None
    idle_bytes: float | None
    reason: str | None
    growth: float | None = None


_STORE = upsert(running_use, UseSoFar._fields)


def watch_running(engine: Engine, clock: Callable[[], float], stop: threading.Event | None = None) -> int:
    """Update the use of every running job; return how many rows have changed."""
    changed, now = 0, clock()
    with engine.connect().execution_options(reading=True) as connection:
        runs = _running(connection, now)
        known = {row.run_id: UseSoFar(*row) for row in connection.execute(select(running_use))}
        sampled_nodes = SampledNodes(connection)
    for some in pieces(runs, _RUNS_AT_ONCE):
        if stop and stop.is_set():
            return changed
        with engine.connect().execution_options(reading=True) as connection:
            histories = read_node_histories(connection, some)
            found = [_use(connection, run, known.get(run.id), sampled_nodes, histories) for run in some]
        rows = [use for use in found if use != known.get(use.run_id)]
        if rows:
            with engine.begin() as connection:
                write_many(connection, _STORE, rows)
            changed += len(rows)
    if over := sorted(set(known) - {run.id for run in runs}):
        with engine.begin() as connection:
            of_runs(connection, delete(running_use).where(running_use.c.run_id.in_(RUNS)), over)
    return changed + len(over)


def _running(connection: Connection, now: float) -> list[EndedRun]:
    """Return the running runs with their nodes, as if they ended now."""
    columns = ("id", "cluster", "job_id", "user", "start", "processors", "asked_processors")
    query = select(*(jobs.c[name] for name in columns)).where(jobs.c.state == "running", jobs.c.start < now)
    runs = [
        EndedRun(number, cluster, job_id, user, start, now, processors, None, None, asked_processors=asked)
        for number, cluster, job_id, user, start, processors, asked in connection.execute(query)
    ]
    return with_nodes(connection, runs)


def _use(
    connection: Connection, run: EndedRun, known: UseSoFar | None, sampled_nodes: SampledNodes, histories: NodeHistories
) -> UseSoFar:
    found = {node: sampled_nodes.find(run.cluster, node) for node in run.nodes}
    nothing = UseSoFar(run.id, run.start if known is None else known.until, None, None, None)
    if not found or run.asked <= 0:
        return nothing._replace(reason="the accounting log gives no nodes or no processors for it")
    if silent := [node for node, sampled in found.items() if sampled is None]:
        return nothing._replace(reason=f"no samples of {silent[0]}")
    nodes = [sampled for sampled in found.values() if sampled is not None]
    marks = read_marks(connection, [(node.id, run.job_id) for node in nodes])
    lives = [boundaries(marks.get((node.id, run.job_id), ()), run.start, run.end) for node in nodes]
    starts = [at.start for at in lives]
    if all(has_cgroup(connection, node.id, run.job_id, start) for node, start in zip(nodes, starts, strict=True)):
        if known is None or known.idle_bytes != 0.0:  # until now, from its nodes' readings
            known = UseSoFar(run.id, run.start, None, 0.0, None)
        return _go_on(connection, run, known, nodes, starts, read_job_memory)
    near = {
        node: neighbours(run, histories.get((run.cluster, node)), run.start - FRESH_S, run.end) for node in run.nodes
    }
    if shared := [node for node in run.nodes if near[node].overlapping]:
        return nothing._replace(reason=f"other jobs were on {shared[0]} and their share is unknown")
    use = known
    if use is None or use.idle_bytes is None:
        idle = 0.0
        for name, node, at in zip(found, nodes, lives, strict=True):
            others = [shifted(other, at.offset_s) for other in near[name].near]
            level = idle_before(connection, node.id, at.start, others)
            if level is None:
                return nothing._replace(reason=f"the idle level of {name} is not known")
            idle += level.bytes
        use = UseSoFar(run.id, run.start, None, idle, None)
    return _go_on(connection, run, use, nodes, starts, _of_node)


def _go_on(
    connection: Connection,
    run: EndedRun,
    use: UseSoFar,
    nodes: Sequence[SampledNode],
    starts: Sequence[float],
    read: _Read,
) -> UseSoFar:
    """Return the use including the readings since ``use.until``."""
    assert use.idle_bytes is not None
    memory, until = use.memory, use.until
    newest = min(run.end, max(node.last_time for node in nodes))
    while True:
        end = min(until + _STEP_S, newest)
        columns = []
        for node, start in zip(nodes, starts, strict=True):
            found = read(connection, node.id, run.job_id, max(start, until - _BEFORE_S), end)
            columns.append(np.array(found, dtype=np.float64).reshape(-1, 2))
        highest = _highest_sum(columns)
        if highest is not None:
            memory = max(memory or 0.0, (highest - use.idle_bytes) / run.asked)
        if end < newest:  # a whole step behind: its later samples are too late
            until = end
            continue
        # Every node has sent samples until then.
        until = max(until, min(float(column[-1, 0]) if len(column) else until for column in columns))
        growth = use.growth
        if memory is not None and use.memory is not None and until > use.until:
            growth = grown(use.growth or 0.0, use.memory, memory, until - use.until)
        return use._replace(until=until, memory=memory, growth=growth)


def _of_node(connection: Connection, node_id: int, job_id: str, since: float, until: float) -> _Memory:
    found = read_samples(connection, node_id, since, until)
    known = np.isfinite(found.memory_used_bytes) & (found.time > since)
    return list(zip(found.time[known], found.memory_used_bytes[known], strict=True))


def _highest_sum(columns: Sequence[Floats]) -> float | None:
    """Return the largest sum of the nodes' memory at one time; each node's reading is valid until its next."""
    if not all(len(column) for column in columns):
        return None
    times = np.unique(np.concatenate([column[:, 0] for column in columns]))
    times = times[times >= max(column[0, 0] for column in columns)]
    total = sum(column[np.searchsorted(column[:, 0], times, "right") - 1, 1] for column in columns)
    return float(np.max(total))
