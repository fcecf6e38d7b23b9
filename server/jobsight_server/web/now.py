"""The site now, the load of each node, and rejected data with the kept examples."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.node_states import FIGURES, NodeLoad
from jobsight_server.queries.now import LISTED, SORTS, Now, now_page
from jobsight_server.queries.rejected import Rejected, rejected_data
from jobsight_server.web.kit.inputs import choice_argument, given
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route, context


def now() -> Now:
    return _now()[0]


def _now() -> tuple[Now, list[NodeLoad]]:
    with context().read_engine.connect() as connection:
        return now_page(connection, context().clock(), LISTING.asked())


LISTING = Listing(SORTS, lowest_first=("left",), rows=LISTED, of_clusters=False, is_searched=False)
"""The running jobs."""

NOW = Route(
    "/api/v1/now",
    now,
    "Running jobs by bandwidth, memory or time left; runs by state; silent nodes; whether the server keeps up",
    LISTING.parameters,
    roles=(),
)


def rejected() -> Rejected:
    with context().read_engine.connect() as connection:
        return rejected_data(connection)


REJECTED = Route(
    "/api/v1/rejected",
    rejected,
    "All event counts, quarantined batches and rejected accounting lines with their reasons",
    roles=(),
)
ROUTES = (NOW, REJECTED)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/", endpoint="now")
    def show() -> Response:
        figure = choice_argument("map", FIGURES) or FIGURES[0]
        table = choice_argument("table", ("yes",))
        wanted = {**LISTING.wanted(), "map": given("map"), "table": table}
        found, loads = _now()
        return page("now.html", found, NOW, listing=LISTING, loads=loads, figure=figure, wanted=wanted)

    @pages.get("/rejected", endpoint="rejected")
    def show_rejected() -> Response:
        return page("rejected.html", rejected(), REJECTED)
