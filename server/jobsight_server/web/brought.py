"""``/api/v1/brought``: what changed requests brought, for those who decide on them, on one printed page."""

from __future__ import annotations

from jobsight_server.ground.parameters import NAME, Parameter
from jobsight_server.savings.brought import Brought
from jobsight_server.savings.brought import brought as read_brought
from jobsight_server.web.kit.inputs import cluster_argument, number_argument
from jobsight_server.web.kit.routes import Route, reading

_PRICE = Parameter(
    "node_hour", "price of a node for an hour, such as 0.9", {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}
)


def brought() -> Brought:
    cluster, node_hour = cluster_argument(), number_argument(_PRICE.name, _PRICE.schema)
    return read_brought(reading(), cluster, node_hour)


ROUTES = (
    Route(
        "/api/v1/brought",
        brought,
        "Node-hours and money that changed requests freed, by week, before and since they began; failures and adoption",
        (Parameter("cluster", "only this cluster's", NAME), _PRICE),
        page="brought",
    ),
)
