"""The site now, and the load of each node."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.queries.node_loads import FIGURES, NodeLoads
from jobsight_server.queries.node_loads import node_loads as read_loads
from jobsight_server.queries.now import LISTED, SORTS, Now, now_page
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import choice_argument, given
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.routes import Route


def now(loads: NodeLoads | None = None) -> Now:
    with context().read_engine.connect() as connection:
        return now_page(connection, context().clock(), LISTING.asked(), loads)


def node_loads() -> NodeLoads:
    with context().read_engine.connect() as connection:
        return read_loads(connection, context().clock())


LISTING = Listing(SORTS, lowest_first=("left",), rows=LISTED, of_clusters=False, is_searched=False)
"""The running jobs."""

NOW = Route(
    "GET",
    "/api/v1/now",
    now,
    (),
    "Running jobs by bandwidth, memory or time left; silent nodes; whether the server keeps up",
    LISTING.parameters,
    errors=(400,),
)
NODE_LOADS = Route(
    "GET", "/api/v1/node-loads", node_loads, ("scheduler",), "The load of each node: processors, memory, network"
)
ROUTES = (NOW, NODE_LOADS)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/", endpoint="now")
    def show() -> Response:
        figure = choice_argument("map", FIGURES) or FIGURES[0]
        table = choice_argument("table", ("yes",))
        wanted = {**LISTING.wanted(), "map": given("map"), "table": table}
        loads = node_loads()
        found = now(loads)
        return page("now.html", found, NOW, listing=LISTING, loads=loads.nodes, figure=figure, wanted=wanted)
