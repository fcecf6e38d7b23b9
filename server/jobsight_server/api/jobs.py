"""``/api/v1/jobs``."""

from __future__ import annotations

from flask import Response
from werkzeug.exceptions import NotFound

from jobsight_server.accounting.lifecycle import STATES
from jobsight_server.api.inputs import (
    PAGES_AT_MOST,
    choice_argument,
    cluster_argument,
    integer_argument,
    name_argument,
    name_text,
    one_cluster,
)
from jobsight_server.api.reply import json_reply
from jobsight_server.api.routes import NAME, PAGE, Parameter, Route
from jobsight_server.site import site
from jobsight_server.views.jobs import job_clusters, job_detail, job_list
from jobsight_server.views.timeline import POINTS


def list_jobs() -> Response:
    cluster, user, state = cluster_argument(), name_argument("user"), choice_argument("state", STATES)
    page = integer_argument("page", 1, PAGES_AT_MOST)
    with site().read_engine.connect() as connection:
        return json_reply(job_list(connection, site().answers, site().clock(), cluster, user, state, page))


def show_job(name: str) -> Response:
    job_id = name_text(name, "the job id in the path")
    points = integer_argument("points", POINTS, POINTS)
    with site().read_engine.connect() as connection:
        cluster = one_cluster(job_clusters(connection, job_id), "job")
        found = (
            None if cluster is None else job_detail(connection, site().answers, cluster, job_id, site().clock(), points)
        )
    if found is None:
        raise NotFound(f"no job {job_id[:60]!r} in {'any cluster' if cluster is None else repr(cluster[:60])}")
    return json_reply(found)


ROUTES = (
    Route(
        "GET",
        "/api/v1/jobs",
        list_jobs,
        ("scheduler",),
        "Runs of jobs, the last recorded first; 50 a page",
        "JobList",
        (
            Parameter("cluster", "only this cluster's", NAME),
            Parameter("user", "only this user's", NAME),
            Parameter("state", "only runs in this state", {"type": "string", "enum": list(STATES)}),
            Parameter("page", "from 1", PAGE),
        ),
        errors=(400, 404),
    ),
    Route(
        "GET",
        "/api/v1/jobs/{name}",
        show_job,
        ("scheduler",),
        "One job, by the id that the accounting log writes: its runs, what they used, its nodes over its life",
        "Job",
        (
            Parameter("cluster", "needed where several clusters have a job of this id", NAME),
            Parameter("points", "points per time series", {"type": "integer", "minimum": 1, "maximum": POINTS}),
        ),
        errors=(400, 404),
    ),
)
