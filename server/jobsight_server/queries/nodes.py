"""Nodes: freshness, wraps and resets of their counters, cost of their agents."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, case, func, select

from jobsight_server.queries.freshness import LATE_WITHIN_S, STATUSES, UP_WITHIN_S, Status
from jobsight_server.queries.freshness import status as status_of
from jobsight_server.queries.jobs import RunState
from jobsight_server.queries.timeline import POINTS, Timeline, timeline
from jobsight_server.record import PAGE_SIZE, Page, Record, pages_of
from jobsight_server.storage.schema import job_counts, job_nodes, jobs, nodes

DAY_S = 86400.0
RUNS_LISTED = 50

SORTS = (
    "name", "cluster", "age_s", "cpus", "memory_total_bytes", "samples", "boots", "wraps", "resets", "missing",
    "clock_skew_s",
)  # fmt: skip


class Node(Record):
    """A node: freshness of its samples, wraps and resets of its counters, cost of its agent.

    ``interfaces`` and ``agent`` are as last sent by the agent (docs/operate/wire-format.md).
    """

    cluster: str
    name: str
    status: Status
    age_s: float
    received_at: float
    first_time: float
    last_time: float
    clock_skew_s: float | None
    cpus: int
    memory_total_bytes: int | None
    boot_id: str
    samples: int
    boots: int
    wraps: int
    resets: int
    missing: int
    interfaces: list[dict[str, Any]]
    agent: dict[str, Any]


class NodeList(Page):
    """Nodes that ever sent a batch, sorted and filtered: one page of them, or all.

    ``statuses``: how many there are of each, whatever status is asked for.
    """

    now: float
    nodes: list[Node]
    statuses: dict[Status, int]
    sort: str
    descending: bool
    search: str | None
    status: Status | None


class RunOnNode(Record):
    """A run on this node, with its processors there."""

    job_id: str
    user: str
    start: float
    end: float | None
    state: RunState
    processors: int


class NodeDetail(Node):
    """One node over time, and the last runs on it."""

    now: float
    series: Timeline
    runs: list[RunOnNode]
    runs_listed_at_most: int


def node_list(
    connection: Connection,
    now: float,
    cluster: str | None = None,
    search: str | None = None,
    status: str | None = None,
    page: int | None = None,
    sort: str = "name",
    descending: bool = False,
) -> NodeList:
    """The nodes that ever sent a batch; ``page`` None: all of them.

    ``search`` keeps the nodes whose name contains it, in any case. ``sort`` is one of ``SORTS``; nodes without a value
    to sort by come last.
    """
    of_status = case(
        (nodes.c.received_at >= now - UP_WITHIN_S, "up"),
        (nodes.c.received_at >= now - LATE_WITHIN_S, "late"),
        else_="silent",
    )
    wanted = [] if cluster is None else [nodes.c.cluster == cluster]
    if search:
        wanted.append(nodes.c.name.icontains(search, autoescape=True))
    counted = connection.execute(select(of_status, func.count()).where(*wanted).group_by(of_status))
    numbers = {row[0]: row[1] for row in counted}
    statuses = {name: numbers.get(name, 0) for name in STATUSES}
    by = now - nodes.c.received_at if sort == "age_s" else nodes.c[sort]
    order = (by.is_(None), by.desc() if descending else by, nodes.c.name, nodes.c.cluster)
    query = select(nodes).where(*wanted).order_by(*order)
    if status is not None:
        query = query.where(of_status == status)
    total = sum(number for name, number in statuses.items() if status in (None, name))
    if page is not None:
        query = query.limit(PAGE_SIZE).offset((page - 1) * PAGE_SIZE)
    found = [Node.of_row(row, **_derived(row, now)) for row in connection.execute(query)]
    pages = 1 if page is None else pages_of(total)
    asked = next((name for name in STATUSES if name == status), None)
    return NodeList(page or 1, pages, total, now, found, statuses, sort, descending, search, asked)


def node_detail(
    connection: Connection,
    cluster: str,
    name: str,
    since: float | None,
    until: float | None,
    now: float,
    points: int = POINTS,
    span_s: float = DAY_S,
) -> NodeDetail | None:
    """One node, its time series and the runs on it; None if no node of this name ever sent a batch.

    ``until`` is by default its last sample, ``since`` by default ``span_s`` before.
    """
    row = connection.execute(select(nodes).where(nodes.c.cluster == cluster, nodes.c.name == name)).one_or_none()
    if row is None:
        return None
    until = row.last_time if until is None else until
    since = until - span_s if since is None else since
    runs = (
        select(jobs.c.job_id, jobs.c.user, jobs.c.start, jobs.c.end, jobs.c.state, job_nodes.c.processors)
        .join_from(job_nodes, jobs, jobs.c.id == job_nodes.c.run_id)
        .where(_not_by_index(jobs.c.cluster) == cluster, job_nodes.c.node == name)
        .order_by(job_nodes.c.run_id.desc())  # as the index of the node has them
        .limit(RUNS_LISTED)
    )
    return NodeDetail.of_row(
        row,
        **_derived(row, now),
        now=now,
        series=timeline(connection, row.id, since, until, row.cpus, points),
        runs=[RunOnNode.of_row(run) for run in connection.execute(runs)],
        runs_listed_at_most=RUNS_LISTED,
    )


def node_clusters(connection: Connection, name: str) -> list[str]:
    """The clusters that have a node of this name."""
    query = select(nodes.c.cluster).where(nodes.c.name == name).order_by(nodes.c.cluster)
    return [row[0] for row in connection.execute(query)]


def cluster_names(connection: Connection) -> list[str]:
    """Every cluster that sent samples or has jobs."""
    found = {row[0] for row in connection.execute(select(nodes.c.cluster).distinct())}
    found |= {row[0] for row in connection.execute(select(job_counts.c.cluster).distinct())}
    return sorted(found)


def _not_by_index(column: Column[str]) -> ColumnElement[str]:
    """The same value, for which no planner reads all jobs of a cluster."""
    return func.coalesce(column, "")


def _derived(row: Row[Any], now: float) -> dict[str, Any]:
    """The fields of a node that are computed from its columns."""
    age_s = max(0.0, now - row.received_at)
    return {
        "status": status_of(age_s),
        "age_s": age_s,
        "interfaces": json.loads(row.interfaces),
        "agent": json.loads(row.agent),
    }
