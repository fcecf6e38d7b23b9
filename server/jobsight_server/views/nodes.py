"""Nodes: how fresh, what their counters went through, what their agent costs."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Row, select

from jobsight_server.storage.schema import job_nodes, jobs, nodes
from jobsight_server.views.freshness import status
from jobsight_server.views.timeline import POINTS, timeline

DAY_S = 86400.0
RUNS_LISTED = 50


def node_list(connection: Connection, now: float, cluster: str | None = None) -> dict[str, Any]:
    """Every node that ever sent a batch, or those of ``cluster``, by cluster and name."""
    query = select(nodes).order_by(nodes.c.cluster, nodes.c.name)
    if cluster is not None:
        query = query.where(nodes.c.cluster == cluster)
    return {"now": now, "nodes": [_node(row, now) for row in connection.execute(query)]}


def node_detail(
    connection: Connection,
    cluster: str,
    name: str,
    since: float | None,
    until: float | None,
    now: float,
    points: int = POINTS,
) -> dict[str, Any] | None:
    """One node, its time series over [since, until] (its last 24 hours by default) and the runs it took part in.

    None where no such node ever sent a batch.
    """
    row = connection.execute(select(nodes).where(nodes.c.cluster == cluster, nodes.c.name == name)).one_or_none()
    if row is None:
        return None
    until = row.last_time if until is None else until
    since = until - DAY_S if since is None else since
    runs = (
        select(jobs.c.job_id, jobs.c.user, jobs.c.start, jobs.c.end, jobs.c.state, job_nodes.c.processors)
        .join(job_nodes, job_nodes.c.run_id == jobs.c.id)
        .where(jobs.c.cluster == cluster, job_nodes.c.node == name)
        .order_by(jobs.c.id.desc())
        .limit(RUNS_LISTED)
    )
    return {
        "now": now,
        **_node(row, now),
        "series": timeline(connection, row.id, since, until, row.cpus, points),
        "runs": [dict(run) for run in connection.execute(runs).mappings()],
        "runs_listed_at_most": RUNS_LISTED,
    }


def node_clusters(connection: Connection, name: str) -> list[str]:
    """The clusters that have a node of this name."""
    query = select(nodes.c.cluster).where(nodes.c.name == name).order_by(nodes.c.cluster)
    return [row[0] for row in connection.execute(query)]


def cluster_names(connection: Connection) -> list[str]:
    """Every cluster that sent samples or has jobs."""
    found = {row[0] for row in connection.execute(select(nodes.c.cluster).distinct())}
    found |= {row[0] for row in connection.execute(select(jobs.c.cluster).distinct())}
    return sorted(found)


def _node(row: Row[Any], now: float) -> dict[str, Any]:
    age_s = max(0.0, now - row.received_at)
    return {
        "cluster": row.cluster,
        "name": row.name,
        "status": status(age_s),
        "age_s": age_s,
        "received_at": row.received_at,
        "first_time": row.first_time,
        "last_time": row.last_time,
        "clock_skew_s": row.clock_skew_s,
        "cpus": row.cpus,
        "memory_total_bytes": row.memory_total_bytes,
        "boot_id": row.boot_id,
        "samples": row.samples,
        "boots": row.boots,
        "wraps": row.wraps,
        "resets": row.resets,
        "missing": row.missing,
        "interfaces": json.loads(row.interfaces),
        "agent": json.loads(row.agent),
    }
