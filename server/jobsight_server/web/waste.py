"""The most memory, processors and time wasted, possible savings, and improvements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobsight_server.ground.parameters import OF_DAYS
from jobsight_server.queries.users import user_clusters
from jobsight_server.savings.savings import BY, Asking
from jobsight_server.savings.sums.read import Days
from jobsight_server.savings.waste import RANGE, RESOURCES, WASTE, WasteList, comparable, newest_day
from jobsight_server.savings.waste import waste as read_waste
from jobsight_server.web.kit.inputs import one_cluster
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, reading
from jobsight_server.web.kit.time_range import TimeRange, range_until


def _span() -> TimeRange:
    return range_until(newest_day(reading()), context().clock(), RANGE)


def waste() -> WasteList:
    asked, span = asked_of(WASTE), _span()
    if (user := asked.of["user"]) is not None:
        asked = replace(asked, cluster=one_cluster(user_clusters(reading(), user), "user", user))
    return read_waste(reading(), Asking(reading(), context().answers), asked, Days(span.first_day, span.last_day))


def _shown(found: WasteList) -> dict[str, Any]:
    halves = comparable(reading()) if found.before_first_day is None else {}
    return {"halves": halves, "span": _span(), "ranges": OF_DAYS, "nouns": BY, "resources": tuple(RESOURCES)}


ROUTES = (
    Route(
        "/api/v1/waste",
        waste,
        "Memory, processors and time that jobs requested and did not use, beside an earlier span: who wastes, who "
        "improved",
        listing=WASTE,
        own="user",
        page="waste",
        shown=_shown,
    ),
)
