"""Users and the list of users."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint
from sqlalchemy import Connection
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.metrics import METRICS
from jobsight_predictor.question import Question
from jobsight_server.advice.words import scheduler_of, similar_use
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.queries.applications import LISTED, ApplicationList, applications
from jobsight_server.queries.applications import SORTS as APPLICATION_SORTS
from jobsight_server.queries.efficiency import RESOURCE_OF
from jobsight_server.queries.users import (
    HISTORY_LISTED,
    SORTS,
    UserHistory,
    UserList,
    UserProfile,
    last_end,
    user_clusters,
    user_history,
    user_list,
    user_profile,
)
from jobsight_server.savings.savings import Days
from jobsight_server.web.kit.inputs import (
    PARAMETERS,
    choice_argument,
    given,
    integer_argument,
    one_cluster,
    request_in_query,
    required_name,
)
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import json_url, page
from jobsight_server.web.kit.parameters import ITS_NAME, NAME, Parameter, choice_of
from jobsight_server.web.kit.routes import Route, context, not_found
from jobsight_server.web.kit.time_range import OF_DAYS, TimeRange, range_argument, range_parameters

_HISTORY_AT_MOST = 5000
_RANGE = "90d"
_YES_NO = ("0", "1")

DESCRIPTION = tuple(parameter for parameter in PARAMETERS if parameter.name != "per")
"""Parameters that describe a job before its submission."""


def users() -> UserList:
    with context().read_engine.connect() as connection:
        return user_list(connection, context().answers, USERS_LISTING.asked())


def user() -> UserProfile:
    return _user(_described())


def _user(described: Question | None) -> UserProfile:
    name, here = required_name("name"), context()
    with here.read_engine.connect() as connection:
        cluster, found = one_cluster(user_clusters(connection, name), "user"), None
        if cluster is not None:
            scheduler = scheduler_of(connection, here.settings.accounting, cluster)
            found = user_profile(connection, here.answers, cluster, name, described, scheduler)
    if found is None:
        raise not_found("user", name, cluster)
    return found


def user_applications() -> ApplicationList:
    name, here = required_name("name"), context()
    with here.read_engine.connect() as connection:
        cluster = _known_cluster(connection, name)
        scheduler, span = scheduler_of(connection, here.settings.accounting, cluster), _span(connection, cluster, name)
        days = Days(span.first_day, span.last_day)
        return applications(connection, here.answers, cluster, name, days, APPLICATIONS_LISTING.asked(), scheduler)


def user_jobs() -> UserHistory:
    name, limit = required_name("name"), integer_argument("limit", HISTORY_LISTED, _HISTORY_AT_MOST)
    five = choice_argument("five", _YES_NO) == "1"
    with context().read_engine.connect() as connection:
        cluster = _known_cluster(connection, name)
        span = _span(connection, cluster, name)
        begin, end = span.first_day * DAY_S, (span.last_day + 1) * DAY_S
        return user_history(connection, context().answers, cluster, name, limit, begin, end, with_five=five)


def _known_cluster(connection: Connection, name: str) -> str:
    clusters = user_clusters(connection, name)
    cluster = one_cluster(clusters, "user")
    if cluster is None or cluster not in clusters:
        raise not_found("user", name, cluster)
    return cluster


def _span(connection: Connection, cluster: str, name: str) -> TimeRange:
    """Return the requested days; without an end, until the user's last job: idle users have a page, too."""
    last = last_end(connection, cluster, name)
    return range_argument(context().clock() if last is None else last, _RANGE, OF_DAYS)


def _described() -> Question | None:
    """Return the job that the request describes; None without one."""
    if all(given(parameter.name) is None for parameter in DESCRIPTION):
        return None
    return request_in_query(None, required_name("name"), None).question


USERS_LISTING = Listing(SORTS, lowest_first=("user", "cluster"))
USERS = Route(
    "/api/v1/users", users, "Users who ran a job, each with the current prediction per metric", USERS_LISTING.parameters
)
_ONE_OF_SEVERAL = Parameter("cluster", "needed if several clusters know the user", NAME)
USER = Route(
    "/api/v1/user",
    user,
    "One user: runs by state, the current prediction per metric, and the recommended request of the next job, "
    "submitted like the last one, or as the other parameters say",
    (ITS_NAME, _ONE_OF_SEVERAL, *DESCRIPTION),
    own="name",
)
APPLICATIONS_LISTING = Listing(
    APPLICATION_SORTS,
    lowest_first=("name",),
    rows=LISTED,
    of_clusters=False,
    is_searched=False,
    filters=(ITS_NAME, _ONE_OF_SEVERAL),
    span=range_parameters(_RANGE, OF_DAYS),
)
APPLICATIONS = Route(
    "/api/v1/user/applications",
    user_applications,
    "The applications of one user: requests and use of their jobs, and the recommended request of the next one",
    APPLICATIONS_LISTING.parameters,
    own="name",
)
HISTORY = Route(
    "/api/v1/user/history",
    user_jobs,
    "Use of one user's last jobs, and the forecasts and reservations at their submission",
    (
        ITS_NAME,
        _ONE_OF_SEVERAL,
        *range_parameters(_RANGE, OF_DAYS),
        Parameter(
            "limit",
            f"jobs at most, the last ones (default {HISTORY_LISTED})",
            {"type": "integer", "minimum": 1, "maximum": _HISTORY_AT_MOST},
        ),
        Parameter("five", "1: also their forecasts by the published five", choice_of(_YES_NO)),
    ),
    own="name",
)
ROUTES = (USERS, USER, APPLICATIONS, HISTORY)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/users", endpoint="users")
    def show() -> Response:
        found = users()
        metrics = [
            name for name in METRICS if not METRICS[name].of_gpus or any(row.metrics[name] for row in found.users)
        ]
        return page("users.html", found, USERS, listing=USERS_LISTING, metrics=metrics)

    @pages.get("/user", endpoint="user")
    def show_one() -> Response:
        refused, described, route = None, None, USER
        try:
            described = _described()
        except BadRequest as error:  # shown beside the form, which keeps its input
            refused = error.description
            route = replace(route, parameters=tuple(each for each in route.parameters if each not in DESCRIPTION))
        found = _user(described)
        with context().read_engine.connect() as connection:
            span = _span(connection, found.cluster, found.user)
        five = FIVE if choice_argument("five", _YES_NO) == "1" else ()
        kept: dict[str, str | None] = {"cluster": found.cluster, "name": found.user}
        kept |= {name: given(name) for name in ("range", "since", "until", "five")}
        wanted = kept | {parameter.name: given(parameter.name) for parameter in DESCRIPTION}
        return page(
            "user.html",
            found,
            route,
            status=200 if refused is None else 400,
            others=(*wanted, *(parameter.name for parameter in APPLICATIONS.parameters)),
            refused=refused,
            similar_use=similar_use,
            applications=user_applications(),
            history_url=json_url(HISTORY),
            applications_url=json_url(APPLICATIONS),
            five=five,
            lines=("used", "forecast", "reserved", *five),
            span=span,
            ranges=OF_DAYS,
            resources=RESOURCE_OF,
            listed=HISTORY_LISTED,
            kept=kept,
            wanted=wanted,
        )
