"""``/api/v1/nodes``."""

from __future__ import annotations

from flask import Response
from werkzeug.exceptions import BadRequest, NotFound

from jobsight_server.api.inputs import cluster_argument, integer_argument, name_text, one_cluster, time_argument
from jobsight_server.api.reply import json_reply
from jobsight_server.api.routes import NAME, TIME, Parameter, Route
from jobsight_server.site import site
from jobsight_server.views.nodes import node_clusters, node_detail, node_list
from jobsight_server.views.timeline import POINTS


def list_nodes() -> Response:
    cluster = cluster_argument()
    with site().read_engine.connect() as connection:
        return json_reply(node_list(connection, site().clock(), cluster))


def show_node(name: str) -> Response:
    node = name_text(name, "the node's name in the path")
    since, until = time_argument("since"), time_argument("until")
    if since is not None and until is not None and since >= until:
        raise BadRequest(f"since={since:g} must be less than until={until:g}")
    points, now = integer_argument("points", POINTS, POINTS), site().clock()
    with site().read_engine.connect() as connection:
        cluster = one_cluster(node_clusters(connection, node), "node")
        found = None if cluster is None else node_detail(connection, cluster, node, since, until, now, points)
    if found is None:
        raise NotFound(f"no node {node[:60]!r} in {'any cluster' if cluster is None else repr(cluster[:60])}")
    return json_reply(found)


ROUTES = (
    Route(
        "GET",
        "/api/v1/nodes",
        list_nodes,
        ("scheduler",),
        "Every node that ever sent samples: how fresh, what its counters went through, its agent's cost",
        "NodeList",
        (Parameter("cluster", "only this cluster's", NAME),),
        errors=(400, 404),
    ),
    Route(
        "GET",
        "/api/v1/nodes/{name}",
        show_node,
        ("scheduler",),
        "One node over time, and the runs it took part in",
        "Node",
        (
            Parameter("cluster", "needed where several clusters have a node of this name", NAME),
            Parameter("since", "UTC epoch seconds (default a day before `until`)", TIME),
            Parameter("until", "UTC epoch seconds (default the node's last sample)", TIME),
            Parameter("points", "points per time series", {"type": "integer", "minimum": 1, "maximum": POINTS}),
        ),
        errors=(400, 404),
    ),
)
