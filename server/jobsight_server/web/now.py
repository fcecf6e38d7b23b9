"""The site now, its figures as a whole, the load of each node, and rejected data with the kept examples."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.node_states import FIGURES, NodeLoads
from jobsight_server.queries.node_states import node_loads as read_loads
from jobsight_server.queries.now import LISTED, SORTS, Now, now_page
from jobsight_server.queries.overview import Overview
from jobsight_server.queries.overview import overview as read_overview
from jobsight_server.queries.rejected import Rejected, rejected_data
from jobsight_server.web.kit.inputs import choice_argument, given
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route, context


def now(loads: NodeLoads | None = None) -> Now:
    with context().read_engine.connect() as connection:
        return now_page(connection, context().clock(), LISTING.asked(), loads)


def node_loads() -> NodeLoads:
    with context().read_engine.connect() as connection:
        return read_loads(connection, context().clock())


LISTING = Listing(SORTS, lowest_first=("left",), rows=LISTED, of_clusters=False, is_searched=False)
"""The running jobs."""

NOW = Route(
    "/api/v1/now",
    now,
    "Running jobs by bandwidth, memory or time left; silent nodes; whether the server keeps up",
    LISTING.parameters,
    roles=(),
)
NODE_LOADS = Route("/api/v1/node-loads", node_loads, "The load of each node: processors, memory, network")


def overview() -> Overview:
    with context().read_engine.connect() as connection:
        return read_overview(connection, context().clock())


def rejected() -> Rejected:
    with context().read_engine.connect() as connection:
        return rejected_data(connection)


OVERVIEW = Route(
    "/api/v1/overview", overview, "Nodes, freshness, ingest rate, jobs, forecast accuracy, rejected input", roles=()
)
REJECTED = Route(
    "/api/v1/rejected",
    rejected,
    "All event counts, quarantined batches and rejected accounting lines with their reasons",
    roles=(),
)
ROUTES = (NOW, NODE_LOADS, OVERVIEW, REJECTED)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/", endpoint="now")
    def show() -> Response:
        figure = choice_argument("map", FIGURES) or FIGURES[0]
        table = choice_argument("table", ("yes",))
        wanted = {**LISTING.wanted(), "map": given("map"), "table": table}
        loads = node_loads()
        found = now(loads)
        return page("now.html", found, NOW, listing=LISTING, loads=loads.nodes, figure=figure, wanted=wanted)

    @pages.get("/rejected", endpoint="rejected")
    def show_rejected() -> Response:
        return page("rejected.html", rejected(), REJECTED)
