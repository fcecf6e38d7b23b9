"""``/jobs`` and one job."""

from __future__ import annotations

from flask import Blueprint, Response, abort, request

from jobsight_server.accounting.lifecycle import STATES
from jobsight_server.pages.twin import choice, page_number, respond
from jobsight_server.site import site
from jobsight_server.views.jobs import job_detail, job_list
from jobsight_server.views.nodes import cluster_names


def add_routes(pages: Blueprint) -> None:
    @pages.get("/jobs", endpoint="jobs")
    def show() -> Response:
        wanted = {
            "cluster": request.args.get("cluster") or None,
            "user": request.args.get("user") or None,
            "state": choice("state", STATES),
        }
        with site().read_engine.connect() as connection:
            data = job_list(connection, site().answers, site().clock(), **wanted, page=page_number())
            clusters = cluster_names(connection)
        return respond("jobs.html", data, wanted=wanted, states=STATES, clusters=clusters)

    @pages.get("/jobs/<cluster>/<path:name>", endpoint="job", merge_slashes=False)
    def show_one(cluster: str, name: str) -> Response:
        with site().read_engine.connect() as connection:
            data = job_detail(connection, site().answers, cluster, name, site().clock())
        if data is None:
            abort(404, f"cluster {cluster!r} has no job {name!r}")
        settled = all(run["state"] != "running" and run["profiled"] for run in data["runs"])
        return respond("job.html", data, settled=settled)

    @pages.get("/job", endpoint="job_by_query")
    def show_by_query() -> Response:
        return show_one(request.args.get("cluster", ""), request.args.get("name", ""))
