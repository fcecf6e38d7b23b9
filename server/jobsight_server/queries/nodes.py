"""Nodes, with and without agents: load now, freshness of samples, cost of the agent, reliability."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, select

from jobsight_server.accounting.last_read import is_running
from jobsight_server.ground.answers import Record, Share
from jobsight_server.ground.listing import Asked, Listing, ListPage
from jobsight_server.ground.parameters import Parameter, choice_of
from jobsight_server.queries.jobs import Outcome, RunState, run_columns
from jobsight_server.queries.node_states import (
    STATUSES,
    MachineLoss,
    Machines,
    NodeLoad,
    NodeName,
    Reliability,
    Status,
    node_loads,
    seen_at,
)
from jobsight_server.queries.node_states import status as status_of
from jobsight_server.queries.timeline import Timeline, timeline
from jobsight_server.storage.engine import rows_of
from jobsight_server.storage.schema import job_nodes, jobs, nodes

HOUR_S = 3600.0
RUN_TIME_S = 6 * 3600.0
"""Default run time of the job that a node's reliability is for."""
RUNS_LISTED = 50

_STORED = (
    "name", "cluster", "cpus", "memory_total_bytes", "samples", "boots", "wraps", "resets", "missing", "clock_skew_s",
)  # fmt: skip
_RATES = ("load", "memory", "bandwidth_bps")
_OF_AGENTS = {"spooled": "batches_spooled", "dropped": "batches_dropped", "version": "version"}
# Run times of a job for which nodes may be compared, in seconds.
RUN_TIMES = {"10min": 600.0, "1h": 3600.0, "6h": RUN_TIME_S, "1d": 86_400.0}
NODES = Listing(
    (*_STORED, "age_s", *_RATES, "jobs", "reliability", *_OF_AGENTS),
    lowest_first=("name", "cluster", "version"),
    steady=("name", "cluster"),
    filters=(
        Parameter("status", "only nodes that are up, late, silent, or without an agent (unknown)", choice_of(STATUSES)),
        Parameter("for", "run time of a job, for `reliability` (default 6h)", choice_of(tuple(RUN_TIMES))),
    ),
)


class Node(Record):
    """A node: its load now, freshness of its samples, wraps and resets of its counters, cost of its agent.

    ``load`` and ``memory`` are shares of its capacity, ``bandwidth_bps`` its busier direction; ``jobs`` run on it now.
    ``reliability``: the chance that a job of the requested run time succeeds there; null without history. A node
    without an agent, from the accounting log, has only jobs and reliability. ``log_name``: its name in the log, where
    that is the host's full name. ``interfaces`` and ``agent`` are as last sent by the agent
    (docs/operate/wire-format.md). ``two_hosts_at``: when boots of two hosts under this name last alternated.
    """

    cluster: str
    name: str
    log_name: str
    status: Status
    load: Share | None
    memory: Share | None
    bandwidth_bps: float | None
    jobs: int
    reliability: Share | None
    age_s: float | None
    received_at: float | None
    first_time: float | None
    last_time: float | None
    clock_skew_s: float | None
    cpus: int | None
    memory_total_bytes: int | None
    boot_id: str | None
    samples: int
    boots: int
    two_hosts_at: float | None
    wraps: int
    resets: int
    missing: int
    interfaces: list[dict[str, Any]]
    agent: dict[str, Any]


class TwoHosts(Record):
    """A name that two hosts send: batches of their boots alternated, last at ``seen_at``."""

    cluster: str
    name: str
    seen_at: float


class NodeList(ListPage):
    """One page of the nodes that ever sent a batch or are in the accounting log.

    ``statuses``: the number of nodes of each, before the filter by status. ``worst``: the node that lost most jobs.
    ``two_hosts``: names under which two hosts sent within an hour, ten at most.
    """

    now: float
    nodes: list[Node]
    statuses: dict[Status, int]
    status: Status | None
    run_time_s: float
    worst: MachineLoss | None
    two_hosts: list[TwoHosts]


class RunOnNode(Record):
    """A run on this node, with its processors there; ``outcome`` and shares are those of ``Run``."""

    job_id: str
    user: str
    start: float
    end: float | None
    state: RunState
    outcome: Outcome
    exit_status: int | None
    memory_share: float | None
    time_share: float | None
    processors: int


class NodeDetail(Node):
    """One node over time, its reliability, and the last runs on it; no ``series`` without an agent."""

    now: float
    series: Timeline | None
    machine: Reliability | None
    runs: list[RunOnNode]
    runs_listed_at_most: int


class _Known(NamedTuple):
    """A node of the list; ``id`` is None without an agent."""

    name: NodeName
    log_name: str
    id: int | None
    stored: Mapping[str, Any]
    age_s: float | None
    status: Status
    jobs: int
    reliability: float | None


def node_list(connection: Connection, now: float, asked: Asked, machines: Machines | None = None) -> NodeList:
    """Return one page of the nodes; ``machines`` knows their reliability."""
    of_machines, status, run_time_s = machines or Machines(), asked.of["status"], RUN_TIMES[asked.of["for"] or "6h"]
    chances = of_machines.chances(connection, run_time_s, now)
    known = [node for node in _known(connection, chances, now, asked.cluster) if asked.keeps(*node.name)]
    statuses = {name: sum(node.status == name for node in known) for name in STATUSES}
    rates = node_loads(connection, now) if asked.sort in _RATES else {}
    position, wanted = asked.page_of(
        (node for node in known if status in (None, node.status)),
        lambda node: _value(node, rates, asked.sort),
        lambda node: (node.name[1], node.name[0]),
    )
    found = _full(connection, wanted, rates or node_loads(connection, now, [node.id for node in wanted if node.id]))
    worst, twice = of_machines.worst(connection, asked.cluster, now), _two_hosts(connection, asked.cluster, now)
    return NodeList(*position, now, found, statuses, status, run_time_s, worst, twice)


def node_detail(
    connection: Connection,
    cluster: str,
    name: str,
    since: float,
    until: float,
    now: float,
    machines: Machines | None = None,
) -> NodeDetail | None:
    """Return one node, its time series and the runs on it; None if it never sent a batch or had a job."""
    of_machines = machines or Machines()
    chances = of_machines.chances(connection, RUN_TIME_S, now)
    known, short = _known(connection, chances, now, cluster), name.partition(".")[0]
    found = [node for node in known if name in (node.name[1], node.log_name)]
    found = found or [node._replace(log_name=name) for node in known if node.id is not None and node.name[1] == short]
    if not found and (cluster in node_clusters(connection, name)):
        found = [_Known((cluster, name), name, None, {}, None, "unknown", 0, None)]
    if not found:
        return None
    node = found[0]
    (full,) = _full(connection, [node], node_loads(connection, now, [node.id] if node.id else []))
    series = None
    if node.id is not None:
        series = timeline(connection, node.id, since, until, node.stored["cpus"])
    return NodeDetail(
        **{field: getattr(full, field) for field in Node.__struct_fields__},
        now=now,
        series=series,
        machine=of_machines.reliability(connection, (cluster, node.log_name), RUN_TIME_S, now)
        or of_machines.reliability(connection, node.name, RUN_TIME_S, now),
        runs=_runs(connection, cluster, {node.name[1], node.log_name}, now),
        runs_listed_at_most=RUNS_LISTED,
    )


def _two_hosts(connection: Connection, cluster: str | None, now: float) -> list[TwoHosts]:
    query = select(nodes.c.cluster, nodes.c.name, nodes.c.two_hosts_at.label("seen_at"))
    query = query.where(nodes.c.two_hosts_at > now - HOUR_S)
    if cluster is not None:
        query = query.where(nodes.c.cluster == cluster)
    newest = query.order_by(nodes.c.two_hosts_at.desc(), nodes.c.name).limit(10)
    return [TwoHosts.of_row(row) for row in connection.execute(newest)]


def _runs(connection: Connection, cluster: str, names: set[str], now: float) -> list[RunOnNode]:
    # The cluster in a form for which no planner reads all of its jobs.
    query = (
        select(*run_columns(now), job_nodes.c.processors.label("here"))
        .join_from(job_nodes, jobs, jobs.c.id == job_nodes.c.run_id)
        .where(func.coalesce(jobs.c.cluster, "") == cluster, job_nodes.c.node.in_(names))
        .order_by(job_nodes.c.run_id.desc())  # in the order of the node's index
        .limit(RUNS_LISTED)
    )
    return [RunOnNode.of_row(run, processors=run.here) for run in connection.execute(query)]


def _known(
    connection: Connection, chances: Mapping[NodeName, float | None], now: float, cluster: str | None
) -> list[_Known]:
    """Return every node of the cluster, or of all: those with agents, those of running jobs, and machines."""
    of_nodes = [nodes.c[name] for name in ("id", *_STORED, "received_at", "last_time", "agent")]
    watched = {(row.cluster, row.name): row for row in connection.execute(select(*of_nodes))}
    running = _running(connection, now)
    log_names: dict[NodeName, str] = {}
    for of_cluster, name in {**chances, **running}:
        # Accounting logs may write the host's full name while the agent sends the short one.
        short = (of_cluster, name.partition(".")[0])
        log_names[short if short in watched and (of_cluster, name) not in watched else (of_cluster, name)] = name
    found = []
    for key in log_names.keys() | watched.keys():
        if cluster not in (None, key[0]):
            continue
        row, log_name = watched.get(key), log_names.get(key, key[1])
        age_s = None if row is None else max(0.0, now - seen_at(row.received_at, row.last_time, row.clock_skew_s))
        chance = chances.get((key[0], log_name))
        found.append(
            _Known(
                key,
                log_name,
                None if row is None else row.id,
                {} if row is None else row._asdict(),
                age_s,
                "unknown" if age_s is None else status_of(age_s),
                running.get((key[0], log_name), 0),
                chances.get(key) if chance is None else chance,
            )
        )
    return found


def _running(connection: Connection, now: float) -> dict[NodeName, int]:
    query = select(jobs.c.cluster, job_nodes.c.node, func.count())
    query = query.join(jobs, jobs.c.id == job_nodes.c.run_id).where(is_running(now))
    rows = connection.execute(query.group_by(jobs.c.cluster, job_nodes.c.node))
    return {(cluster, node): number for cluster, node, number in rows}


def _value(node: _Known, rates: Mapping[NodeName, NodeLoad], sort: str) -> Any:
    if sort in ("name", "cluster"):
        return node.name[sort == "name"]
    if sort in _RATES:
        return getattr(rates.get(node.name), sort, None)
    if sort in _OF_AGENTS:
        return json.loads(node.stored.get("agent", "{}")).get(_OF_AGENTS[sort])
    return getattr(node, sort) if sort in ("age_s", "jobs", "reliability") else node.stored.get(sort)


def _full(connection: Connection, known: list[_Known], rates: Mapping[NodeName, NodeLoad]) -> list[Node]:
    """Return the nodes with all that their agents sent."""
    ids = [node.id for node in known if node.id is not None]
    stored = {row.id: row for row in rows_of(connection, select(nodes), nodes.c.id, ids)}
    return [_node(node, stored[node.id] if node.id else None, rates.get(node.name)) for node in known]


def _node(known: _Known, row: Row[Any] | None, rates: NodeLoad | None) -> Node:
    derived: dict[str, Any] = {
        "cluster": known.name[0],
        "name": known.name[1],
        **{field: getattr(known, field) for field in ("log_name", "status", "jobs", "reliability", "age_s")},
        **{field: getattr(rates, field, None) for field in _RATES},
    }
    if row is None:
        counts = dict.fromkeys(("samples", "boots", "wraps", "resets", "missing"), 0)
        blank = {name: None for name in Node.__struct_fields__ if name not in derived}
        return Node(**{**blank, **counts, **derived, "interfaces": [], "agent": {}})
    return Node.of_row(row, **derived, interfaces=json.loads(row.interfaces), agent=json.loads(row.agent))


def node_clusters(connection: Connection, name: str) -> list[str]:
    """Return the clusters with a node of this name; without an agent, those whose jobs ran on one."""
    sent = select(nodes.c.cluster).where(nodes.c.name == name).order_by(nodes.c.cluster)
    if found := list(connection.scalars(sent)):
        return found
    ran = select(jobs.c.cluster).join(job_nodes, jobs.c.id == job_nodes.c.run_id).where(job_nodes.c.node == name)
    return sorted(connection.scalars(ran.distinct()))


def last_reading(connection: Connection, cluster: str, name: str) -> float | None:
    """Return the time of the node's last sample; None without an agent."""
    names = nodes.c.name.in_({name, name.partition(".")[0]})
    found: float | None = connection.scalar(
        select(func.max(nodes.c.last_time)).where(nodes.c.cluster == cluster, names)
    )
    return found
