"""Nodes: freshness, wraps and resets of their counters, cost of their agents."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, select

from jobsight_server.queries.freshness import Status, status
from jobsight_server.queries.jobs import RunState
from jobsight_server.queries.timeline import POINTS, Timeline, timeline
from jobsight_server.record import Record
from jobsight_server.storage.schema import job_counts, job_nodes, jobs, nodes

DAY_S = 86400.0
RUNS_LISTED = 50


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


class NodeList(Record):
    """Every node that ever sent a batch."""

    now: float
    nodes: list[Node]


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


def node_list(connection: Connection, now: float, cluster: str | None = None) -> NodeList:
    """Every node that ever sent a batch, or those of ``cluster``, by cluster and name."""
    query = select(nodes).order_by(nodes.c.cluster, nodes.c.name)
    if cluster is not None:
        query = query.where(nodes.c.cluster == cluster)
    return NodeList(now, [Node.of_row(row, **_derived(row, now)) for row in connection.execute(query)])


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
        .join(job_nodes, job_nodes.c.run_id == jobs.c.id)
        .where(jobs.c.cluster == cluster, job_nodes.c.node == name)
        .order_by(jobs.c.id.desc())
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


def _derived(row: Row[Any], now: float) -> dict[str, Any]:
    """The fields of a node that are computed from its columns."""
    age_s = max(0.0, now - row.received_at)
    return {
        "status": status(age_s),
        "age_s": age_s,
        "interfaces": json.loads(row.interfaces),
        "agent": json.loads(row.agent),
    }
