"""The network: links now and their full hours, and which applications can be spread, also for schedulers."""

from __future__ import annotations

from jobsight_server.ground.amounts import DAY_S
from jobsight_server.queries.network import APPLICATIONS, Network, NetworkUseList, network_use
from jobsight_server.queries.network import network as read_network
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, reading


def applications() -> NetworkUseList:
    return network_use(reading(), context().clock(), asked_of(APPLICATIONS))


def network() -> Network:
    here = context()
    return read_network(reading(), here.clock(), here.settings.retention_days * DAY_S, applications())


ROUTES = (
    Route(
        "/api/v1/network",
        network,
        "Traffic as a share of nodes' links, running jobs above half of one, hours with full links, and the "
        "applications",
        listing=APPLICATIONS,
        page="network",
    ),
    Route(
        "/api/v1/applications",
        applications,
        "Applications of the last 30 days: bandwidth per node with quantiles, and whether to spread their jobs over "
        "clusters or uplinks, with the reason",
        listing=APPLICATIONS,
    ),
)
