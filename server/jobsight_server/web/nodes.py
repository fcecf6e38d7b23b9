"""Nodes: the list, also of those without an agent, and one node over time with the reliability of the machine."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.node_states import STATUSES, Machines
from jobsight_server.queries.nodes import (
    SORTS,
    NodeDetail,
    NodeList,
    last_reading,
    node_clusters,
    node_detail,
    node_list,
)
from jobsight_server.queries.rejected import rejected_data
from jobsight_server.web.kit.inputs import given, one_cluster, required_name
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.parameters import ITS_NAME, NAME, Parameter, choice_of
from jobsight_server.web.kit.routes import Route, context, not_found, part
from jobsight_server.web.kit.time_range import range_argument, range_parameters

# Run times of a job for which nodes may be compared, in seconds.
RUN_TIMES = {"10min": 600.0, "1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0}
_RUN_TIME = "6h"

SPANS = ("6h", "1d", "7d", "30d")
"""Time ranges that a node's page offers."""

_SPAN = "1d"


def nodes() -> NodeList:
    of = LISTING.filtered()
    with context().read_engine.connect() as connection:
        run_time_s = RUN_TIMES[of["for"] or _RUN_TIME]
        return node_list(connection, context().clock(), LISTING.asked(), of["status"], part(Machines), run_time_s)


def node() -> NodeDetail:
    name, now = required_name("name"), context().clock()
    with context().read_engine.connect() as connection:
        cluster, found = one_cluster(node_clusters(connection, name), "node"), None
        if cluster is not None:
            span = range_argument(last_reading(connection, cluster, name) or now, _SPAN)
            found = node_detail(connection, cluster, name, span.since, span.until, now, part(Machines))
    if found is None:
        raise not_found("node", name, cluster)
    return found


LISTING = Listing(
    SORTS,
    lowest_first=("name", "cluster", "version"),
    filters=(
        Parameter("status", "only nodes that are up, late, silent, or without an agent (unknown)", choice_of(STATUSES)),
        Parameter("for", f"run time of a job, for `reliability` (default {_RUN_TIME})", choice_of(tuple(RUN_TIMES))),
    ),
)
NODES = Route(
    "/api/v1/nodes",
    nodes,
    "Every node that ever sent samples or had a job: its load now, freshness, reliability, its agent's cost",
    LISTING.parameters,
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
)
ROUTES = (NODES, NODE)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/nodes", endpoint="nodes")
    def show() -> Response:
        with context().read_engine.connect() as connection:
            refused = rejected_data(connection)
        return page("nodes.html", nodes(), NODES, listing=LISTING, run_times=RUN_TIMES, refused=refused)

    @pages.get("/node", endpoint="node")
    def show_one() -> Response:
        return page("node.html", node(), NODE, chosen=given("range") or _SPAN, ranges=SPANS)
