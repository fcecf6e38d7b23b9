"""``/api/v1/trust``: accuracy of forecasts, and since when it is below its targets."""

from __future__ import annotations

from jobsight_server.advice.words import KEPT
from jobsight_server.ground.parameters import OF_DAYS
from jobsight_server.queries.trust import BY, RANGE, TRUST, Trust, newest_day
from jobsight_server.queries.trust import trust as read_trust
from jobsight_server.savings.savings import Asking, Days
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, reading
from jobsight_server.web.kit.time_range import TimeRange, range_until


def _span() -> TimeRange:
    return range_until(newest_day(reading()), context().clock(), RANGE)


def trust() -> Trust:
    here, span = context(), _span()
    days, asking = Days(span.first_day, span.last_day), Asking(reading(), here.answers)
    return read_trust(reading(), asked_of(TRUST), days, here.answers.config.coverage, here.clock(), asking)


ROUTES = (
    Route(
        "/api/v1/trust",
        trust,
        "Accuracy of forecasts and share of bounds held, by week and against their targets; which broke first",
        listing=TRUST,
        page="trust",
        shown=lambda _: {"span": _span(), "ranges": OF_DAYS, "nouns": BY, "kept_because": KEPT},
    ),
)
