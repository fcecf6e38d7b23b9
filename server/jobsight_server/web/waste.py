"""Who wastes most memory, processors and time, what it would save, and who improved."""

from __future__ import annotations

from flask import Blueprint, redirect, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response

from jobsight_server.queries.adjusted import adjusted
from jobsight_server.queries.savings import BY, LISTED, Asking
from jobsight_server.queries.users import user_clusters
from jobsight_server.queries.waste import RESOURCES, SORTS, WasteList, WasteRequest, comparable, newest_day
from jobsight_server.queries.waste import waste as read_waste
from jobsight_server.storage.event_counts import DAY_S
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    ORDERS,
    choice_argument,
    cluster_argument,
    day_argument,
    given,
    integer_argument,
    name_argument,
    one_cluster,
)
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import NAME, Parameter, Route, choice_of
from jobsight_server.web.kit.time_range import DAY_OR_TIME, OF_DAYS, TimeRange, range_argument, range_parameters

DEFAULT_RANGE = "30d"
_LISTED_AT_MOST = 1000


def asked_range(newest: int | None) -> TimeRange:
    """The range that the request is about; without an end until the newest day of which a job is counted."""
    now = context().clock()
    return range_argument(now if newest is None else min(now, (newest + 1) * DAY_S), DEFAULT_RANGE, OF_DAYS)


def waste() -> WasteList:
    here = context()
    cluster, user, by = cluster_argument(), name_argument("user"), choice_argument("by", BY) or BY[0]
    sort, limit = choice_argument("sort", SORTS) or SORTS[0], integer_argument("limit", LISTED, _LISTED_AT_MOST)
    order = choice_argument("order", ORDERS) or ("asc" if sort == "name" else "desc")
    before = day_argument("before")
    with here.read_engine.connect() as connection:
        if user is not None:
            cluster = one_cluster(user_clusters(connection, user), "user")
            if cluster is None:
                raise NotFound(f"no user {user[:60]!r} in any cluster")
        span = asked_range(newest_day(connection))
        asked = WasteRequest(span.first_day, span.last_day, before, by, cluster, user, sort, order == "desc", limit)
        return read_waste(connection, Asking(connection, here.answers), asked)


WASTE = Route(
    "GET",
    "/api/v1/waste",
    waste,
    ("scheduler",),
    "Memory, processors and time that jobs requested and did not use, beside an earlier span: who wastes, who improved",
    (
        Parameter("by", f"one row for each of these (default {BY[0]})", choice_of(BY)),
        Parameter("cluster", "only this cluster's jobs", NAME),
        Parameter("user", "only this user's jobs", NAME),
        Parameter("sort", f"what to sort by (default {SORTS[0]}, what was left unused)", choice_of(SORTS)),
        Parameter("order", "ascending or descending (default: largest first)", choice_of(ORDERS)),
        Parameter("limit", f"rows (default {LISTED})", {"type": "integer", "minimum": 1, "maximum": _LISTED_AT_MOST}),
        Parameter("before", "first day of the span to compare with (default: as many days just before)", DAY_OR_TIME),
        *range_parameters(DEFAULT_RANGE, OF_DAYS),
    ),
    errors=(400, 404),
    own="user",
)
ROUTES = (WASTE,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/savings", endpoint="savings")
    def show_old() -> Response:
        query = request.query_string.decode("latin-1")
        return redirect("/waste" + (f"?{query}" if query else ""), 301)

    @pages.get("/waste", endpoint="waste")
    def show() -> Response:
        found = waste()
        with context().read_engine.connect() as connection:
            span = asked_range(newest_day(connection))
            halves = comparable(connection) if found.before_first_day is None else {}
            changed = adjusted(connection, context().clock(), cluster_argument())
        wanted = {name: given(name) for name in ("by", "cluster", "user", "sort", "order", "before")}
        dates = {name: given(name) for name in ("range", "since", "until")}
        return page(
            "waste.html",
            found,
            WASTE,
            wanted=wanted,
            dates=dates,
            halves=halves,
            span=span,
            ranges=OF_DAYS,
            nouns=BY,
            resources=tuple(RESOURCES),
            clusters=clusters_offered(),
            adjusted=changed,
        )
