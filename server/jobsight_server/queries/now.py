"""The site now: running jobs by use, silent nodes, and whether the server keeps up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, func, select

from jobsight_server.accounting.last_read import is_running
from jobsight_server.accounting.runs import RUNNING
from jobsight_server.ground.answers import Record
from jobsight_server.ground.event_counts import read_event_counts
from jobsight_server.ground.listing import Asked, Listing, ListPage, Position
from jobsight_server.queries.node_states import NodeLoad, NodeName, node_loads
from jobsight_server.queries.rejected import rejections
from jobsight_server.queries.running import Foreseen, Resource, nodes_of_running, running_out
from jobsight_server.storage.engine import fetch, whole
from jobsight_server.storage.job_counts import NUMBER
from jobsight_server.storage.readings.size_cap import DELETED
from jobsight_server.storage.schema import accounting_files, job_counts, jobs, nodes, readings, running_use
from jobsight_server.storage.schema.jobs import ASKED_MEMORY, ASKED_PROCESSORS, ASKED_WALLTIME
from jobsight_server.storage.server_states import trend

JOBS = Listing(
    ("bandwidth", "memory", "left", "risk", "started"),
    lowest_first=("left",),
    steady=("started",),
    rows=20,
    of_clusters=False,
    is_searched=False,
)
"""The running jobs."""
RATE_BARS = 60
RATE_BAR_S = 15.0


class RunningJob(Record):
    """A running job. ``bandwidth_bps`` is that of its nodes in the last minutes; if other jobs run on one of them
    (``is_shared``), its share by processors. ``memory_bytes``: the whole job's peak so far, from its own cgroup or,
    alone on its nodes, from these; null with the reason. ``left_s``: until its limit. ``risks``: resources that it is
    likely to run out of within the hour.
    """

    cluster: str
    job_id: str
    user: str
    name: str | None
    start: float
    nodes: int
    processors: int | None
    bandwidth_bps: float | None
    is_shared: bool
    memory_bytes: float | None
    requested_memory_bytes: float | None
    memory_reason: str | None
    left_s: float | None
    risks: list[Resource]


class NodeFigures(Record):
    """Numbers of nodes up, late and silent."""

    total: int
    up: int
    late: int
    silent: int


class RunFigures(Record):
    """Numbers of runs by state; of the ended ones, the number ``profiled`` and ``waiting`` for a profile.

    ``queued`` ones have not started; only some schedulers' logs show them.
    """

    queued: int
    running: int
    ended: int
    requeued: int
    deleted: int
    profiled: int
    waiting: int


class LogLag(Record):
    """A cluster's accounting: the age of the last new line, and the files followed."""

    cluster: str
    age_s: float
    files: int


class Server(Record):
    """The server's backlog and growth.

    ``waiting``: ended runs without a profile; ``empty_in_s``: at the rate of the last hour, null while they do not
    decrease. ``growth_bytes_day``: of the database, over the last week; ``full_in_s``: until its disk is full at that
    rate; null if unknown. ``spooled``: batches that agents still hold, on ``spooling_nodes``;
    ``versions`` of agents by number of nodes.
    """

    logs: list[LogLag]
    waiting: int
    empty_in_s: float | None
    database_bytes: int
    free_bytes: int | None
    growth_bytes_day: float | None
    full_in_s: float | None
    spooled: int
    spooling_nodes: int
    dropped: int
    samples_deleted_for_space: int
    versions: dict[str, int]


class Now(ListPage):
    """Every cluster now. ``jobs`` are a page of the running ones, which ``users`` have, on ``held_processors`` of the
    ``processors`` of nodes with agents; ``at_risk`` of these are likely to run out within the hour, the first of which
    are ``running_out``. ``samples_per_s``: stored over the last 15 minutes, in bars of 15 s, oldest first.
    """

    now: float
    nodes: NodeFigures
    runs: RunFigures
    users: int
    held_processors: int
    processors: int | None
    at_risk: int
    running_out: list[Foreseen]
    jobs: list[RunningJob]
    server: Server
    samples_per_s: list[float]
    rejected_total: int


class _Agent(msgspec.Struct):
    version: str | None = None
    batches_spooled: int = 0
    batches_dropped: int = 0


_agent = msgspec.json.Decoder(_Agent).decode


def now_page(connection: Connection, now: float, asked: Asked) -> tuple[Now, list[NodeLoad]]:
    """Return the figures with a page of the running jobs, and the load of each node."""
    out = running_out(connection, now)
    loads = node_loads(connection, now)
    position, shown, running, users, held = _running(connection, now, asked, out, loads)
    events = read_event_counts(connection)
    statuses = Counter(load.status for load in loads.values())
    found = Now(
        *position,
        now=now,
        nodes=NodeFigures(len(loads), statuses["up"], statuses["late"], statuses["silent"]),
        runs=_run_figures(connection, running),
        users=users,
        held_processors=held,
        processors=connection.scalar(select(func.sum(nodes.c.cpus))),
        at_risk=len({(each.cluster, each.job_id) for each in out}),
        running_out=out[: asked.limit],
        jobs=shown,
        server=_server(connection, now, events),
        samples_per_s=samples_per_s(connection, now),
        rejected_total=sum(count.value for count in rejections(events)),
    )
    return found, list(loads.values())


def _run_figures(connection: Connection, running: int) -> RunFigures:
    counts: Counter[str] = Counter()
    query = select(job_counts.c.state, job_counts.c.profiled, NUMBER).group_by(
        job_counts.c.state, job_counts.c.profiled
    )
    for state, done, count in connection.execute(query):
        counts[state] += count
        if state == "ended":
            counts["profiled" if done else "waiting"] += count
    counts[RUNNING] = running
    return RunFigures(**{name: counts[name] for name in RunFigures.__struct_fields__})


def samples_per_s(connection: Connection, now: float) -> list[float]:
    """Return the samples stored per second in each bar of the last 15 minutes, oldest first."""
    begin = now - RATE_BARS * RATE_BAR_S
    bar = whole(connection, (readings.c.received_at - begin) / RATE_BAR_S).label("bar")
    query = select(bar, func.sum(readings.c.samples)).group_by("bar")
    rows = connection.execute(query.where(readings.c.received_at >= begin, readings.c.received_at < now))
    samples = {int(bar_number): int(count) for bar_number, count in rows}
    return [samples.get(i, 0) / RATE_BAR_S for i in range(RATE_BARS)]


class _RunningRow(NamedTuple):
    id: int
    cluster: str
    job_id: str
    user: str
    name: str | None
    start: float
    processors: int | None
    asked_processors: int | None
    asked_memory_bytes: float | None
    asked_walltime_s: float | None
    memory: float | None
    reason: str | None


def _running(
    connection: Connection, now: float, asked: Asked, out: Sequence[Foreseen], loads: Mapping[NodeName, NodeLoad]
) -> tuple[Position, list[RunningJob], int, int, int]:
    """Return a page of the running jobs, their number, that of their users and of their processors; only those shown of
    thousands become records."""
    risks: dict[tuple[str, str], list[Resource]] = defaultdict(list)
    for each in out:
        risks[each.cluster, each.job_id].append(each.resource)
    of_job = (jobs.c[name] for name in _RunningRow._fields[: _RunningRow._fields.index("asked_processors")])
    given = (ASKED_PROCESSORS, ASKED_MEMORY, ASKED_WALLTIME)
    query = select(*of_job, *given, running_use.c.memory, running_use.c.reason)
    query = query.outerjoin(running_use, running_use.c.run_id == jobs.c.id).where(is_running(now))
    rows = list(map(_RunningRow._make, fetch(connection, query, {})))
    held: dict[int, list[tuple[str, int]]] = defaultdict(list)
    on_node: dict[NodeName, list[int]] = defaultdict(list)
    for cluster, run_id, node, processors in nodes_of_running(connection, now):
        held[run_id].append((node, processors))
        on_node[cluster, node].append(processors)

    def left_s(row: _RunningRow) -> float | None:
        return None if row.asked_walltime_s is None else row.start + row.asked_walltime_s - now

    def memory(row: _RunningRow) -> float | None:
        return None if row.memory is None else row.memory * (row.asked_processors or row.processors or 1)

    def bandwidth(row: _RunningRow) -> tuple[float | None, bool]:
        """Return it on the job's nodes, and whether it shares one up to the first unknown."""
        found, is_shared = 0.0, False
        for node, processors in held[row.id]:
            # Accounting logs may write the host's full name while the agent sends the short one.
            load = loads.get((row.cluster, node)) or loads.get((row.cluster, node.partition(".")[0]))
            if load is None or load.bandwidth_bps is None:
                return None, is_shared
            of_jobs = on_node[row.cluster, node]
            is_shared |= len(of_jobs) > 1
            found += load.bandwidth_bps * (processors / sum(of_jobs) if len(of_jobs) > 1 else 1.0)
        return found if held[row.id] else None, is_shared

    def tie(row: _RunningRow) -> tuple[float, str, str]:
        left = 0.0 if asked.sort == "started" else left_s(row)  # of which there are cursors, without what changes
        return inf if left is None else left, row.cluster, row.job_id

    values: dict[str, Callable[[_RunningRow], float | None]] = {
        "bandwidth": lambda row: bandwidth(row)[0],
        "memory": memory,
        "left": left_s,
        "risk": lambda row: len(risks[row.cluster, row.job_id]),
        "started": lambda row: row.start,
    }
    position, shown = asked.page_of(rows, values[asked.sort], tie)
    found = [
        RunningJob(
            cluster=row.cluster,
            job_id=row.job_id,
            user=row.user,
            name=row.name,
            start=row.start,
            nodes=len(held[row.id]),
            processors=row.processors,
            bandwidth_bps=bandwidth_bps,
            is_shared=is_shared,
            memory_bytes=memory(row),
            requested_memory_bytes=row.asked_memory_bytes,
            memory_reason=None if row.memory is not None else row.reason or "no readings yet",
            left_s=left_s(row),
            risks=sorted(risks[row.cluster, row.job_id]),
        )
        for row, (bandwidth_bps, is_shared) in zip(shown, map(bandwidth, shown), strict=True)
    ]
    return position, found, len(rows), len({row.user for row in rows}), sum(row.processors or 0 for row in rows)


def _server(connection: Connection, now: float, events: Mapping[tuple[str, str], int]) -> Server:
    known = [_agent(agent) for agent in connection.scalars(select(nodes.c.agent))]
    found = trend(connection, now)
    growth, state = found.growth_bytes_s, found.now
    logs = connection.execute(
        select(accounting_files.c.cluster, func.max(accounting_files.c.updated), func.count())
        .group_by(accounting_files.c.cluster)
        .order_by(accounting_files.c.cluster)
    )
    is_shrinking = found.shrinking_s is not None and found.shrinking_s > 0
    is_growing = growth is not None and growth > 0 and state.free_bytes is not None
    return Server(
        logs=[LogLag(cluster, max(0.0, now - updated), files) for cluster, updated, files in logs],
        waiting=state.waiting,
        empty_in_s=state.waiting / (found.shrinking_s or 1.0) if is_shrinking else None,
        database_bytes=state.database_bytes,
        free_bytes=state.free_bytes,
        growth_bytes_day=None if growth is None else growth * 86400,
        full_in_s=(state.free_bytes or 0) / (growth or 1.0) if is_growing else None,
        spooled=sum(agent.batches_spooled for agent in known),
        spooling_nodes=sum(agent.batches_spooled > 0 for agent in known),
        dropped=sum(agent.batches_dropped for agent in known),
        samples_deleted_for_space=events.get((DELETED, ""), 0),
        versions=dict(sorted(Counter(agent.version or "unknown" for agent in known).items())),
    )
