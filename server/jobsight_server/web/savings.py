"""What the recommended reservations would have freed."""

from __future__ import annotations

from werkzeug.exceptions import BadRequest, NotFound

from jobsight_server.queries.adjusted import Adjusted, adjusted
from jobsight_server.queries.savings import BY, LISTED, Asking, Savings, SavingsRequest
from jobsight_server.queries.savings import savings as read_savings
from jobsight_server.queries.users import user_clusters
from jobsight_server.web.kit.context import context
from jobsight_server.web.kit.inputs import (
    choice_argument,
    cluster_argument,
    day_argument,
    given,
    integer_argument,
    name_argument,
    one_cluster,
)
from jobsight_server.web.kit.routes import NAME, TIME, Parameter, Route, choice_of

_LISTED_AT_MOST = 1000
_DAY = {"anyOf": [{"type": "string", "format": "date"}, TIME]}


def savings() -> Savings:
    cluster, user, by = cluster_argument(), name_argument("user"), choice_argument("by", BY) or BY[0]
    first, last, limit = (
        day_argument("since"),
        day_argument("until"),
        integer_argument("limit", LISTED, _LISTED_AT_MOST),
    )
    if first is not None and last is not None and first > last:
        raise BadRequest(f"since={given('since')} must not be after until={given('until')}")
    with context().read_engine.connect() as connection:
        if user is not None:
            cluster = one_cluster(user_clusters(connection, user), "user")
            if cluster is None:
                raise NotFound(f"no user {user[:60]!r} in any cluster")
        request = SavingsRequest(by, cluster, user, first, last, limit)
        return read_savings(connection, Asking(connection, context().answers), request)


SAVINGS = Route(
    "GET",
    "/api/v1/savings",
    savings,
    ("scheduler",),
    "Memory and processor time that jobs requested, used and would have reserved, largest savings first",
    (
        Parameter("by", f"one row for each of these (default {BY[0]})", choice_of(BY)),
        Parameter("cluster", "only this cluster's jobs", NAME),
        Parameter("user", "only this user's jobs", NAME),
        Parameter("since", "first day on which jobs ended, a date or UTC epoch seconds (default 30 days)", _DAY),
        Parameter("until", "last day, included (default: the newest)", _DAY),
        Parameter(
            "limit",
            f"rows per metric (default {LISTED})",
            {"type": "integer", "minimum": 1, "maximum": _LISTED_AT_MOST},
        ),
    ),
    errors=(400, 404),
    own="user",
)


def adjustments() -> Adjusted:
    here, cluster = context(), cluster_argument()
    with here.read_engine.connect() as connection:
        return adjusted(connection, here.clock(), cluster)


ADJUSTMENTS = Route(
    "GET",
    "/api/v1/adjustments",
    adjustments,
    ("scheduler",),
    "What `jobsight adjust` changed of waiting jobs in the last 30 days, what that freed, and what failed",
    (Parameter("cluster", "only this cluster's", NAME),),
    errors=(400, 404),
)
ROUTES = (SAVINGS, ADJUSTMENTS)
