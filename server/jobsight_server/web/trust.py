"""``/api/v1/trust``: accuracy of forecasts, and since when it is below its targets."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_predictor.metrics import METRICS
from jobsight_server.queries.trust import BY, LISTED, SORTS, Trust, TrustRequest, newest_day
from jobsight_server.queries.trust import trust as read_trust
from jobsight_server.storage.event_counts import DAY_S
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    choice_argument,
    metric_argument,
)
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import clusters_offered, page
from jobsight_server.web.kit.routes import Parameter, Route, choice_of
from jobsight_server.web.kit.time_range import OF_DAYS, TimeRange, range_argument, range_parameters

DEFAULT_RANGE = "30d"


def asked_range(newest: int | None) -> TimeRange:
    """Return the request's time range; without an end, until the newest day with a count."""
    now = context().clock()
    return range_argument(now if newest is None else min(now, (newest + 1) * DAY_S), DEFAULT_RANGE, OF_DAYS)


def trust() -> Trust:
    here, asked = context(), LISTING.asked()
    by, metric = choice_argument("by", BY) or BY[0], metric_argument()
    with here.read_engine.connect() as connection:
        span = asked_range(newest_day(connection))
        order = (asked.sort, asked.descending, asked.limit)
        request = TrustRequest(span.first_day, span.last_day, by, asked.cluster, metric, asked.search, *order)
        return read_trust(connection, request, here.answers.config.coverage, here.clock())


LISTING = Listing(
    SORTS,
    lowest_first=("name", "metric", "accuracy", "within20", "held"),
    rows=LISTED,
    filters=(
        Parameter("by", f"a row for each of these in each metric (default {BY[0]})", choice_of(BY)),
        Parameter("metric", "only this metric", choice_of(tuple(METRICS))),
    ),
    span=range_parameters(DEFAULT_RANGE, OF_DAYS),
)
TRUST = Route(
    "GET",
    "/api/v1/trust",
    trust,
    ("scheduler",),
    "Accuracy of forecasts and share of bounds held, by week and against their targets; which broke first",
    LISTING.parameters,
    errors=(400, 404),
)
ROUTES = (TRUST,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/trust", endpoint="trust")
    def show() -> Response:
        found = trust()
        with context().read_engine.connect() as connection:
            span = asked_range(newest_day(connection))
        return page(
            "trust.html",
            found,
            TRUST,
            listing=LISTING,
            span=span,
            ranges=OF_DAYS,
            nouns=BY,
            clusters=clusters_offered(),
        )
