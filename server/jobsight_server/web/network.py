"""The network: links now and their full hours, and which applications can be spread, also for schedulers."""

from __future__ import annotations

from typing import Any

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.queries.network import LISTED, SORTS, Network, NetworkUseList, network_use
from jobsight_server.queries.network import network as read_network
from jobsight_server.web.kit.listing import Listing
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.parameters import NAME, Parameter
from jobsight_server.web.kit.routes import Route, context

_UPLINK: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0, "maximum": 1e15}


def applications() -> NetworkUseList:
    here = context()
    with here.read_engine.connect() as connection:
        return network_use(connection, here.clock(), LISTING.asked(), **LISTING.filtered())


def network() -> Network:
    here, use = context(), applications()
    with here.read_engine.connect() as connection:
        return read_network(connection, here.clock(), here.settings.retention_days * DAY_S, use)


LISTING = Listing(
    SORTS,
    lowest_first=("application",),
    rows=LISTED,
    is_searched=False,
    filters=(
        Parameter("user", "only this user's", NAME),
        Parameter("application", "only those of this name", NAME),
        Parameter("uplink_bps", "bits per second of an uplink (default: a link of the jobs' nodes)", _UPLINK),
    ),
)
APPLICATIONS = Route(
    "/api/v1/applications",
    applications,
    "Applications of the last 30 days: bandwidth per node with quantiles, and whether to spread their jobs over "
    "clusters or uplinks, with the reason",
    LISTING.parameters,
)
NETWORK = Route(
    "/api/v1/network",
    network,
    "Traffic as a share of nodes' links, running jobs above half of one, hours with full links, and the applications",
    LISTING.parameters,
)
ROUTES = (NETWORK, APPLICATIONS)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/network", endpoint="network")
    def show() -> Response:
        return page("network.html", network(), NETWORK, listing=LISTING)
