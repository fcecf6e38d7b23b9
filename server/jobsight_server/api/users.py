"""``/api/v1/users``."""

from __future__ import annotations

from flask import Response
from werkzeug.exceptions import NotFound

from jobsight_predictor.metrics import METRICS
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
from jobsight_server.views.users import HISTORY_LISTED, SORTS, user_clusters, user_list, user_profile

_SORTS = (*SORTS, *(f"{metric}:{field}" for metric in METRICS for field in ("user_jobs", "pqm", "recent_pqm")))
_HISTORY_AT_MOST = 5000


def list_users() -> Response:
    cluster, search = cluster_argument(), name_argument("search")
    page, sort = integer_argument("page", 1, PAGES_AT_MOST), choice_argument("sort", _SORTS) or "user"
    descending = choice_argument("order", ("asc", "desc")) == "desc"
    with site().read_engine.connect() as connection:
        return json_reply(user_list(connection, site().answers, cluster, search, page, sort, descending))


def show_profile(name: str) -> Response:
    user = name_text(name, "the user's name in the path")
    limit = integer_argument("limit", HISTORY_LISTED, _HISTORY_AT_MOST)
    with site().read_engine.connect() as connection:
        cluster = one_cluster(user_clusters(connection, user), "user")
        found = None if cluster is None else user_profile(connection, site().answers, cluster, user, limit)
    if found is None:
        raise NotFound(f"no user {user[:60]!r} in {'any cluster' if cluster is None else repr(cluster[:60])}")
    return json_reply(found)


ROUTES = (
    Route(
        "GET",
        "/api/v1/users",
        list_users,
        ("scheduler",),
        "Users that ran a job, each with the present answer per metric; 50 a page",
        "UserList",
        (
            Parameter("cluster", "only this cluster's users", NAME),
            Parameter("search", "only users whose name contains this, in any case", NAME),
            Parameter("page", "from 1", PAGE),
            Parameter("sort", "what to sort by", {"type": "string", "enum": list(_SORTS)}),
            Parameter("order", "ascending or descending", {"type": "string", "enum": ["asc", "desc"]}),
        ),
        errors=(400, 404),
    ),
    Route(
        "GET",
        "/api/v1/users/{name}/profile",
        show_profile,
        ("scheduler",),
        "One user: jobs by state, and per metric the present answer and the history",
        "UserProfile",
        (
            Parameter("cluster", "needed where several clusters know the user", NAME),
            Parameter(
                "limit",
                f"jobs of history per metric (default {HISTORY_LISTED})",
                {"type": "integer", "minimum": 1, "maximum": _HISTORY_AT_MOST},
            ),
        ),
        errors=(400, 404),
    ),
)
