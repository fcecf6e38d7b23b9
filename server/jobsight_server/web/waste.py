"""The most memory, processors and time wasted, possible savings, and improvements."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.users import user_clusters
from jobsight_server.savings.savings import BY, LISTED, Asking
from jobsight_server.savings.waste import RESOURCES, SORTS, WasteList, WasteRequest, comparable, newest_day
from jobsight_server.savings.waste import waste as read_waste
from jobsight_server.web.kit.inputs import choice_argument, name_argument, one_cluster
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.parameters import NAME, Parameter, choice_of
from jobsight_server.web.kit.routes import Route, context, not_found
from jobsight_server.web.kit.time_range import OF_DAYS, range_parameters, range_until

DEFAULT_RANGE = "30d"


def waste() -> WasteList:
    here, asked = context(), LISTING.asked()
    user, by = name_argument("user"), choice_argument("by", BY) or BY[0]
    with here.read_engine.connect() as connection:
        if user is not None:
            cluster = one_cluster(user_clusters(connection, user), "user")
            if cluster is None:
                raise not_found("user", user, None)
            asked = replace(asked, cluster=cluster)
        span = range_until(newest_day(connection), here.clock(), DEFAULT_RANGE)
        request = WasteRequest(span.first_day, span.last_day, by, user, asked)
        return read_waste(connection, Asking(connection, here.answers), request)


LISTING = Listing(
    SORTS,
    lowest_first=("name",),
    rows=LISTED,
    is_searched=False,
    filters=(
        Parameter("by", f"one row for each of these (default {BY[0]})", choice_of(BY)),
        Parameter("user", "only this user's jobs", NAME),
    ),
    span=range_parameters(DEFAULT_RANGE, OF_DAYS),
)
WASTE = Route(
    "/api/v1/waste",
    waste,
    "Memory, processors and time that jobs requested and did not use, beside an earlier span: who wastes, who improved",
    LISTING.parameters,
    own="user",
)
ROUTES = (WASTE,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/waste", endpoint="waste")
    def show() -> Response:
        found = waste()
        with context().read_engine.connect() as connection:
            span = range_until(newest_day(connection), context().clock(), DEFAULT_RANGE)
            halves = comparable(connection) if found.before_first_day is None else {}
        return page(
            "waste.html",
            found,
            WASTE,
            listing=LISTING,
            halves=halves,
            span=span,
            ranges=OF_DAYS,
            nouns=BY,
            resources=tuple(RESOURCES),
        )
