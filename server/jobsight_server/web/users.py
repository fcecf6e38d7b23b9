"""Users: the list, and one user."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.utils import redirect
from werkzeug.wrappers import Response

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_server.queries.users import (
    HISTORY_LISTED,
    SORTS,
    UserList,
    UserProfile,
    user_clusters,
    user_list,
    user_profile,
)
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    ORDERS,
    PAGES_AT_MOST,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    name_argument,
    not_found,
    one_cluster,
    required_name,
)
from jobsight_server.web.kit.pages import clusters_offered, page, user_url
from jobsight_server.web.kit.routes import NAME, PAGE, Parameter, Route, by_query, choice_of

_HISTORY_AT_MOST = 5000


def users() -> UserList:
    cluster, search = cluster_argument(), name_argument("search")
    number, sort = integer_argument("page", 1, PAGES_AT_MOST), choice_argument("sort", SORTS) or "user"
    descending = choice_argument("order", ORDERS) == "desc"
    with context().read_engine.connect() as connection:
        return user_list(connection, context().answers, cluster, search, number, sort, descending)


def user() -> UserProfile:
    name, limit = required_name("name"), integer_argument("limit", HISTORY_LISTED, _HISTORY_AT_MOST)
    with context().read_engine.connect() as connection:
        cluster = one_cluster(user_clusters(connection, name), "user")
        found = None if cluster is None else user_profile(connection, context().answers, cluster, name, limit)
    if found is None:
        raise not_found("user", name, cluster)
    return found


USERS = Route(
    "GET",
    "/api/v1/users",
    users,
    ("scheduler",),
    "Users who ran a job, each with the current prediction per metric; 50 a page",
    (
        Parameter("cluster", "only this cluster's users", NAME),
        Parameter("search", "only users whose name contains this, ignoring case", NAME),
        Parameter("page", "from 1", PAGE),
        Parameter("sort", "what to sort by", choice_of(SORTS)),
        Parameter("order", "ascending or descending", choice_of(ORDERS)),
    ),
    errors=(400, 404),
)
USER = Route(
    "GET",
    "/api/v1/users/{name}/profile",
    user,
    ("scheduler",),
    "One user: runs by state, and per metric the current prediction and the history",
    (
        Parameter("cluster", "needed if several clusters know the user", NAME),
        Parameter(
            "limit",
            f"jobs of history per metric (default {HISTORY_LISTED})",
            {"type": "integer", "minimum": 1, "maximum": _HISTORY_AT_MOST},
        ),
    ),
    errors=(400, 404),
    own="name",
)
USER_BY_QUERY = by_query(USER, "/api/v1/user")
ROUTES = (USERS, USER, USER_BY_QUERY)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/users", endpoint="users")
    def show() -> Response:
        found = users()
        metrics = [
            name for name in METRICS if not METRICS[name].of_gpus or any(row.metrics[name] for row in found.users)
        ]
        return page("users.html", found, USERS, cluster=given("cluster"), clusters=clusters_offered(), metrics=metrics)

    @pages.get("/users/<name>", endpoint="user_without_cluster")
    def find(name: str) -> Response:
        with context().read_engine.connect() as connection:
            cluster = one_cluster(user_clusters(connection, name), "user")
        if cluster is None:
            raise not_found("user", name, None)
        return redirect(user_url(cluster, name), 303)

    @pages.get("/user", endpoint="user_by_query")
    @pages.get("/users/<cluster>/<path:name>", endpoint="user", merge_slashes=False)
    def show_one(**_names: str) -> Response:
        return page("user.html", user(), USER_BY_QUERY, five=FIVE)
