"""``/api/v1/adjustments``: the log of `jobsight adjust`."""

from __future__ import annotations

from jobsight_server.queries.adjusted import Adjusted, adjusted
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import cluster_argument
from jobsight_server.web.kit.routes import NAME, Parameter, Route


def adjustments() -> Adjusted:
    here, cluster = context(), cluster_argument()
    with here.read_engine.connect() as connection:
        return adjusted(connection, here.clock(), cluster)


ADJUSTMENTS = Route(
    "GET",
    "/api/v1/adjustments",
    adjustments,
    ("scheduler",),
    "Changes of waiting jobs by `jobsight adjust` in the last 30 days, what they freed, and what failed",
    (Parameter("cluster", "only this cluster's", NAME),),
    errors=(400, 404),
)
ROUTES = (ADJUSTMENTS,)
