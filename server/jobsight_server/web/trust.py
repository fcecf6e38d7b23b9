"""Whether forecasts can be trusted, and since when not."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_predictor.metrics import METRICS
from jobsight_server.queries.trust import BY, LISTED, SORTS, Trust, TrustRequest, newest_day
from jobsight_server.queries.trust import trust as read_trust
from jobsight_server.storage.event_counts import DAY_S
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    ORDERS,
    choice_argument,
    cluster_argument,
    given,
    integer_argument,
    metric_argument,
    name_argument,
)
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import NAME, Parameter, Route, choice_of
from jobsight_server.web.kit.time_range import OF_DAYS, TimeRange, range_argument, range_parameters

DEFAULT_RANGE = "30d"
_LISTED_AT_MOST = 1000
_ASCENDING_FIRST = ("name", "metric", "accuracy", "within20", "held")


def asked_range(newest: int | None) -> TimeRange:
    """The range that the request is about; without an end until the newest day of which something is counted."""
    now = context().clock()
    return range_argument(now if newest is None else min(now, (newest + 1) * DAY_S), DEFAULT_RANGE, OF_DAYS)


def trust() -> Trust:
    here = context()
    sort = choice_argument("sort", SORTS) or SORTS[0]
    order = choice_argument("order", ORDERS) or ("asc" if sort in _ASCENDING_FIRST else "desc")
    by, limit = choice_argument("by", BY) or BY[0], integer_argument("limit", LISTED, _LISTED_AT_MOST)
    cluster, metric, search = cluster_argument(), metric_argument(), name_argument("search")
    with here.read_engine.connect() as connection:
        span = asked_range(newest_day(connection))
        request = TrustRequest(span.first_day, span.last_day, by, cluster, metric, search, sort, order == "desc", limit)
        return read_trust(connection, request, here.answers.config.coverage, here.clock())


TRUST = Route(
    "GET",
    "/api/v1/trust",
    trust,
    ("scheduler",),
    "Accuracy of forecasts and share of bounds held, by week and against their targets; whose forecasts broke first",
    (
        Parameter("by", f"a row for each of these in each metric (default {BY[0]})", choice_of(BY)),
        Parameter("cluster", "only this cluster's jobs", NAME),
        Parameter("metric", "only this metric", choice_of(tuple(METRICS))),
        Parameter("search", "only rows whose name contains this, ignoring case", NAME),
        Parameter("sort", "what to sort by (default break: what fell furthest first)", choice_of(SORTS)),
        Parameter("order", "ascending or descending (default: the worst first)", choice_of(ORDERS)),
        Parameter("limit", f"rows (default {LISTED})", {"type": "integer", "minimum": 1, "maximum": _LISTED_AT_MOST}),
        *range_parameters(DEFAULT_RANGE, OF_DAYS),
    ),
    errors=(400, 404),
)
ROUTES = (TRUST,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/trust", endpoint="trust")
    def show() -> Response:
        found = trust()
        with context().read_engine.connect() as connection:
            span = asked_range(newest_day(connection))
        wanted = {name: given(name) for name in ("by", "cluster", "metric", "search", "sort", "order")}
        dates = {name: given(name) for name in ("range", "since", "until")}
        return page(
            "trust.html",
            found,
            TRUST,
            wanted=wanted,
            dates=dates,
            span=span,
            ranges=OF_DAYS,
            nouns=BY,
            clusters=clusters_offered(),
        )
