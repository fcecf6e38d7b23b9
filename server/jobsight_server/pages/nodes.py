"""``/nodes`` and one node."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from jobsight_server.pages.twin import choice, respond
from jobsight_server.site import site
from jobsight_server.views.nodes import cluster_names, node_detail, node_list

# Spans that a node's page offers, in hours.
SPANS = {"6": "6 h", "24": "24 h", "168": "7 d", "672": "28 d"}


def add_routes(pages: Blueprint) -> None:
    @pages.get("/nodes", endpoint="nodes")
    def show() -> Response:
        cluster = request.args.get("cluster") or None
        with site().read_engine.connect() as connection:
            data = node_list(connection, site().clock(), cluster)
            return respond("nodes.html", data, cluster=cluster, clusters=cluster_names(connection))

    @pages.get("/nodes/<cluster>/<path:name>", endpoint="node", merge_slashes=False)
    def show_one(cluster: str, name: str) -> Response:
        hours = choice("hours", tuple(SPANS)) or "24"
        with site().read_engine.connect() as connection:
            now = site().clock()
            data = node_detail(connection, cluster, name, None, None, now)
            if data is not None and hours != "24":
                until = data["last_time"]
                data = node_detail(connection, cluster, name, until - 3600.0 * float(hours), until, now)
        if data is None:
            abort(404, f"cluster {cluster!r} has no node {name!r} that ever sent samples")
        return respond("node.html", data, hours=hours, spans=SPANS)

    @pages.get("/node", endpoint="node_by_query")
    def show_by_query() -> Response:
        return show_one(request.args.get("cluster", ""), request.args.get("name", ""))
