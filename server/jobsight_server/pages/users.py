"""``/users`` and one user."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.pages.twin import choice, page_number, respond
from jobsight_server.site import site
from jobsight_server.views.nodes import cluster_names
from jobsight_server.views.users import SORTS, user_list, user_profile

FIELDS = {"user_jobs": "n", "pqm": "PQM", "recent_pqm": "Recent"}
ALL_SORTS = (*SORTS, *(f"{metric}:{field}" for metric in METRICS for field in FIELDS))


def add_routes(pages: Blueprint) -> None:
    @pages.get("/users", endpoint="users")
    def show() -> Response:
        cluster, search = request.args.get("cluster") or None, request.args.get("search") or None
        sort = choice("sort", ALL_SORTS) or "user"
        descending = choice("dir", ("asc", "desc")) == "desc"
        with site().read_engine.connect() as connection:
            data = user_list(connection, site().answers, cluster, search, page_number(), sort, descending)
            clusters = cluster_names(connection)
        return respond("users.html", data, cluster=cluster, clusters=clusters, metrics=METRICS, fields=FIELDS)

    @pages.get("/users/<cluster>/<path:name>", endpoint="user", merge_slashes=False)
    def show_one(cluster: str, name: str) -> Response:
        with site().read_engine.connect() as connection:
            data = user_profile(connection, site().answers, cluster, name)
        if data is None:
            abort(404, f"cluster {cluster!r} knows no user {name!r}")
        return respond("user.html", data, five=FIVE)

    @pages.get("/user", endpoint="user_by_query")
    def show_by_query() -> Response:
        return show_one(request.args.get("cluster", ""), request.args.get("name", ""))
