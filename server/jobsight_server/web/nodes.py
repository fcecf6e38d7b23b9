"""Nodes: the list, also of those without an agent, and one node over time with the reliability of the machine."""

from __future__ import annotations

from jobsight_server.ground.parameters import ITS_NAME, NAME, Parameter, range_parameters
from jobsight_server.queries.node_states import Machines
from jobsight_server.queries.nodes import (
    NODES,
    RUN_TIMES,
    NodeDetail,
    NodeList,
    last_reading,
    node_clusters,
    node_detail,
    node_list,
)
from jobsight_server.queries.rejected import rejected_data
from jobsight_server.web.kit.inputs import given, one_cluster, required_name
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, not_found, reading
from jobsight_server.web.kit.system_parts import part
from jobsight_server.web.kit.time_range import range_argument

SPANS = ("6h", "1d", "7d", "30d")
"""Time ranges that a node's page offers."""

_SPAN = "1d"


def nodes() -> NodeList:
    return node_list(reading(), context().clock(), asked_of(NODES), part(Machines))


def node() -> NodeDetail:
    name, now = required_name("name"), context().clock()
    cluster = one_cluster(node_clusters(reading(), name), "node", name)
    span = range_argument(last_reading(reading(), cluster, name) or now, _SPAN)
    found = node_detail(reading(), cluster, name, span.since, span.until, now, part(Machines))
    if found is None:
        raise not_found("node", name, cluster)
    return found


LIST = Route(
    "/api/v1/nodes",
    nodes,
    "Every node that ever sent samples or had a job: its load now, freshness, reliability, its agent's cost",
    listing=NODES,
    page="nodes",
    shown=lambda _: {"run_times": RUN_TIMES, "refused": rejected_data(reading())},
)
NODE = Route(
    "/api/v1/node",
    node,
    "One node over time, and the runs on it",
    (
        ITS_NAME,
        Parameter("cluster", "needed if several clusters have a node with this name", NAME),
        *range_parameters(_SPAN),
    ),
    page="node",
    shown=lambda _: {"chosen": given("range") or _SPAN, "ranges": SPANS},
)
ROUTES = (LIST, NODE)
