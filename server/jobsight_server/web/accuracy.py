"""``/api/v1/accuracy``: accuracy of forecasts, and since when it is lower."""

from __future__ import annotations

from jobsight_server.ground.parameters import OF_DAYS
from jobsight_server.queries.accuracy import ACCURACY, BY, RANGE, AccuracyList, accuracy_list, newest_day
from jobsight_server.savings.sums.read import Days
from jobsight_server.web.kit.listing import asked_of
from jobsight_server.web.kit.routes import Route, context, reading
from jobsight_server.web.kit.time_range import TimeRange, range_until


def _span() -> TimeRange:
    return range_until(newest_day(reading()), context().clock(), RANGE)


def accuracy() -> AccuracyList:
    here, span = context(), _span()
    days = Days(span.first_day, span.last_day)
    return accuracy_list(reading(), asked_of(ACCURACY), days, here.answers.config.coverage, here.clock())


ROUTES = (
    Route(
        "/api/v1/accuracy",
        accuracy,
        "Accuracy of forecasts and share of bounds held, by week; which forecasts became worse, and when",
        listing=ACCURACY,
        page="accuracy",
        shown=lambda _: {"span": _span(), "ranges": OF_DAYS, "nouns": BY},
    ),
)
