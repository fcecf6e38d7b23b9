"""``/api/v1/brought``: what changed requests brought, for those who decide on them, on one printed page."""

from __future__ import annotations

from flask import Blueprint
from werkzeug.wrappers import Response

from jobsight_server.savings.brought import Brought
from jobsight_server.savings.brought import brought as read_brought
from jobsight_server.web.kit.inputs import cluster_argument, number_argument
from jobsight_server.web.kit.pages import page
from jobsight_server.web.kit.parameters import NAME, Parameter
from jobsight_server.web.kit.routes import Route, context

_PRICE = Parameter(
    "node_hour", "price of a node for an hour, such as 0.9", {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9}
)


def brought() -> Brought:
    cluster, node_hour = cluster_argument(), number_argument(_PRICE.name, _PRICE.schema)
    with context().read_engine.connect() as connection:
        return read_brought(connection, cluster, node_hour)


BROUGHT = Route(
    "/api/v1/brought",
    brought,
    "Node-hours and money that changed requests freed, by week, before and since they began; failures and adoption",
    (Parameter("cluster", "only this cluster's", NAME), _PRICE),
)
ROUTES = (BROUGHT,)


def add_pages(pages: Blueprint) -> None:
    @pages.get("/brought", endpoint="brought")
    def show() -> Response:
        return page("brought.html", brought(), BROUGHT)
