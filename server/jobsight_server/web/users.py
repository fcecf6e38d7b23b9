"""Users and the list of users."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from jobsight_predictor.forecasters import FIVE
from jobsight_predictor.question import Question
from jobsight_server.advice.words import scheduler_of, similar_use
from jobsight_server.ground.amounts import DAY_S
from jobsight_server.ground.parameters import ITS_NAME, OF_DAYS, Parameter, choice_of, range_parameters, whole_number
from jobsight_server.queries.applications import APPLICATIONS, ITS_CLUSTER, RANGE, ApplicationList, applications
from jobsight_server.queries.efficiency import RESOURCE_OF
from jobsight_server.queries.user_list import USERS, UserList, user_list
from jobsight_server.queries.users import (
    HISTORY_LISTED,
    UserHistory,
    UserProfile,
    last_end,
    user_clusters,
    user_history,
    user_profile,
)
from jobsight_server.savings.sums.read import Days
from jobsight_server.web.kit.inputs import (
    PARAMETERS,
    choice_argument,
    given,
    integer_argument,
    one_cluster,
    request_in_query,
    required_name,
)
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.pages import json_url, page
from jobsight_server.web.kit.routes import Route, context, not_found, reading
from jobsight_server.web.kit.time_range import TimeRange, range_argument

_HISTORY_AT_MOST = 5000
_YES_NO = ("0", "1")

DESCRIPTION = tuple(parameter for parameter in PARAMETERS if parameter.name != "per")
"""Parameters that describe a job before its submission."""


def users() -> UserList:
    return user_list(reading(), asked_of(USERS))


def user() -> UserProfile:
    return _user(_described())


def _user(described: Question | None) -> UserProfile:
    name, here = required_name("name"), context()
    cluster = one_cluster(user_clusters(reading(), name), "user", name)
    scheduler = scheduler_of(reading(), here.settings.accounting, cluster)
    found = user_profile(reading(), here.answers, cluster, name, described, scheduler)
    if found is None:
        raise not_found("user", name, cluster)
    return found


def user_applications() -> ApplicationList:
    name, here = required_name("name"), context()
    cluster = _known_cluster(name)
    scheduler, span = scheduler_of(reading(), here.settings.accounting, cluster), _span(cluster, name)
    days = Days(span.first_day, span.last_day)
    return applications(reading(), here.answers, cluster, name, days, asked_of(APPLICATIONS), scheduler)


def user_jobs() -> UserHistory:
    name, limit = required_name("name"), integer_argument("limit", HISTORY_LISTED, _HISTORY_AT_MOST)
    five = choice_argument("five", _YES_NO) == "1"
    cluster = _known_cluster(name)
    span = _span(cluster, name)
    begin, end = span.first_day * DAY_S, (span.last_day + 1) * DAY_S
    return user_history(reading(), context().answers, cluster, name, limit, begin, end, with_five=five)


def _known_cluster(name: str) -> str:
    clusters = user_clusters(reading(), name)
    cluster = one_cluster(clusters, "user", name)
    if cluster not in clusters:
        raise not_found("user", name, cluster)
    return cluster


def _span(cluster: str, name: str) -> TimeRange:
    """Return the requested days; without an end, until the user's last job: idle users have a page, too."""
    last = last_end(reading(), cluster, name)
    return range_argument(context().clock() if last is None else last, RANGE, OF_DAYS)


def _described() -> Question | None:
    """Return the job that the request describes; None without one."""
    if all(given(parameter.name) is None for parameter in DESCRIPTION):
        return None
    return request_in_query(None, required_name("name"), None).question


LIST = Route(
    "/api/v1/users",
    users,
    "Users who ran a job: processor-hours, killed jobs and unused memory of a month, beside the month before",
    listing=USERS,
    page="users",
)
USER = Route(
    "/api/v1/user",
    user,
    "One user: runs by state, the current prediction per metric, and the recommended request of the next job, "
    "submitted like the last one, or as the other parameters say",
    (ITS_NAME, ITS_CLUSTER, *DESCRIPTION),
    own="name",
)
OF_USER = Route(
    "/api/v1/user/applications",
    user_applications,
    "The applications of one user: requests and use of their jobs, and the recommended request of the next one",
    listing=APPLICATIONS,
    own="name",
)
HISTORY = Route(
    "/api/v1/user/history",
    user_jobs,
    "Use of one user's last jobs, and the forecasts and reservations at their submission",
    (
        ITS_NAME,
        ITS_CLUSTER,
        *range_parameters(RANGE, OF_DAYS),
        Parameter("limit", f"jobs at most, the last ones (default {HISTORY_LISTED})", whole_number(_HISTORY_AT_MOST)),
        Parameter("five", "1: also their forecasts by the published five", choice_of(_YES_NO)),
    ),
    own="name",
)
ROUTES = (LIST, USER, OF_USER, HISTORY)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/user", endpoint="user")
    def show_one() -> Response:
        refused, described, route = None, None, USER
        try:
            described = _described()
        except BadRequest as error:  # shown beside the form, which keeps its input
            refused = error.description
            route = replace(route, parameters=tuple(each for each in route.parameters if each not in DESCRIPTION))
        found = _user(described)
        five = FIVE if choice_argument("five", _YES_NO) == "1" else ()
        kept: dict[str, str | None] = {"cluster": found.cluster, "name": found.user}
        kept |= {name: given(name) for name in ("range", "since", "until", "five")}
        wanted = kept | {parameter.name: given(parameter.name) for parameter in DESCRIPTION}
        return page(
            "user.html",
            found,
            route,
            status=200 if refused is None else 400,
            others=(*wanted, *(parameter.name for parameter in OF_USER.takes)),
            refused=refused,
            similar_use=similar_use,
            applications=user_applications(),
            history_url=json_url(HISTORY),
            applications_url=json_url(OF_USER),
            five=five,
            lines=("used", "forecast", "reserved", *five),
            span=_span(found.cluster, found.user),
            ranges=OF_DAYS,
            resources=RESOURCE_OF,
            listed=HISTORY_LISTED,
            kept=kept,
            wanted=wanted,
        )
