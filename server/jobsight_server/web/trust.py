"""``/api/v1/trust``: accuracy of forecasts, and since when it is below its targets."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_predictor.metrics import METRICS
from jobsight_server.advice.words import KEPT
from jobsight_server.queries.trust import BY, LISTED, SORTS, Trust, TrustRequest, newest_day
from jobsight_server.queries.trust import trust as read_trust
from jobsight_server.savings.savings import Asking
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.parameters import Parameter, choice_of
from jobsight_server.web.kit.routes import Route, context
from jobsight_server.web.kit.time_range import OF_DAYS, range_parameters, range_until

DEFAULT_RANGE = "30d"


def trust() -> Trust:
    here, of = context(), LISTING.filtered()
    with here.read_engine.connect() as connection:
        span = range_until(newest_day(connection), here.clock(), DEFAULT_RANGE)
        request = TrustRequest(span.first_day, span.last_day, of["by"] or BY[0], of["metric"], LISTING.asked())
        asking = Asking(connection, here.answers)
        return read_trust(connection, request, here.answers.config.coverage, here.clock(), asking)


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
    "/api/v1/trust",
    trust,
    "Accuracy of forecasts and share of bounds held, by week and against their targets; which broke first",
    LISTING.parameters,
)
ROUTES = (TRUST,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/trust", endpoint="trust")
    def show() -> Response:
        found = trust()
        with context().read_engine.connect() as connection:
            span = range_until(newest_day(connection), context().clock(), DEFAULT_RANGE)
        return page(
            "trust.html",
            found,
            TRUST,
            listing=LISTING,
            span=span,
            ranges=OF_DAYS,
            nouns=BY,
            kept_because=KEPT,
        )
