"""``/api/v1/savings``: what changed requests freed, for those who decide on them, on one printed page."""

from __future__ import annotations

from jobsight_server.ground.parameters import NAME, Parameter, above_zero
from jobsight_server.savings.by_week import SavingsByWeek, savings_by_week
from jobsight_server.web.kit.inputs import cluster_argument, value_argument
from jobsight_server.web.kit.routes import Route, reading

_PRICE = Parameter("node_hour", "price of a node for an hour, such as 0.9", above_zero(1e9))


def savings() -> SavingsByWeek:
    return savings_by_week(reading(), cluster_argument(), value_argument(_PRICE))


ROUTES = (
    Route(
        "/api/v1/savings",
        savings,
        "Node-hours and money that changed requests freed, by week, before and since they began; failures and adoption",
        (Parameter("cluster", "only this cluster's", NAME), _PRICE),
        page="savings",
    ),
)
