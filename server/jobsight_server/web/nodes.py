"""Nodes: the list, also of those without an agent, and one node over time with the reliability of the machine."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from jobsight_server.queries.node_states import STATUSES, Machines
from jobsight_server.queries.nodes import SORTS, NodeDetail, NodeList, node_clusters, node_detail, node_list
from jobsight_server.queries.timeline import POINTS
from jobsight_server.web.kit.inputs import (
    integer_argument,
    one_cluster,
    required_name,
    time_argument,
)
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.parameters import ITS_NAME, NAME, Parameter, choice_of
from jobsight_server.web.kit.routes import Route, context, not_found, part
from jobsight_server.web.kit.time_range import DAY_OR_TIME

_HOURS, _HOURS_AT_MOST = 24, 10_000

# Run times of a job for which nodes may be compared, in seconds.
RUN_TIMES = {"10min": 600.0, "1h": 3600.0, "6h": 21_600.0, "1d": 86_400.0}
_RUN_TIME = "6h"

# Spans that a node's page offers, in hours.
SPANS = {6: "6 h", 24: "24 h", 168: "7 d", 672: "28 d"}


def nodes() -> NodeList:
    of = LISTING.filtered()
    with context().read_engine.connect() as connection:
        run_time_s = RUN_TIMES[of["for"] or _RUN_TIME]
        return node_list(connection, context().clock(), LISTING.asked(), of["status"], part(Machines), run_time_s)


def node() -> NodeDetail:
    name, since, until = required_name("name"), time_argument("since"), time_argument("until", is_end=True)
    if since is not None and until is not None and since >= until:
        raise BadRequest(f"since={since:g} must be before until={until:g}")
    span_s = 3600.0 * integer_argument("hours", _HOURS, _HOURS_AT_MOST)
    points, now = integer_argument("points", POINTS, POINTS), context().clock()
    with context().read_engine.connect() as connection:
        cluster, found = one_cluster(node_clusters(connection, name), "node"), None
        if cluster is not None:
            found = node_detail(connection, cluster, name, since, until, now, points, span_s, part(Machines))
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
        Parameter("since", "a date, a time or UTC epoch seconds (default `hours` before `until`)", DAY_OR_TIME),
        Parameter("until", "the same; a date includes its day (default the node's last sample)", DAY_OR_TIME),
        Parameter(
            "hours",
            f"how far back, if `since` is not given (default {_HOURS})",
            {"type": "integer", "minimum": 1, "maximum": _HOURS_AT_MOST},
        ),
        Parameter("points", "points per time series", {"type": "integer", "minimum": 1, "maximum": POINTS}),
    ),
)
ROUTES = (NODES, NODE)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/nodes", endpoint="nodes")
    def show() -> Response:
        return page("nodes.html", nodes(), NODES, listing=LISTING, clusters=clusters_offered(), run_times=RUN_TIMES)

    @pages.get("/node", endpoint="node")
    def show_one() -> Response:
        hours = integer_argument("hours", _HOURS, _HOURS_AT_MOST)
        return page("node.html", node(), NODE, hours=hours, spans=SPANS)
