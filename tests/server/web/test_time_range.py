"""The range of time in an address: names, dates, epochs, and what is refused."""

from __future__ import annotations

import pytest
from flask import Flask
from werkzeug.exceptions import BadRequest

from jobsight_server.ground.parameters import OF_DAYS, RANGES
from jobsight_server.web.kit.time_range import TimeRange, range_argument

NOW = 1_700_000_000.0  # 2023-11-14 22:13:20
DAY_S = 86400.0
MIDNIGHT = 1_699_920_000.0  # 2023-11-14


def asked(query: str, names: tuple[str, ...] = tuple(RANGES)) -> TimeRange:
    with Flask(__name__).test_request_context(f"/?{query}"):
        return range_argument(NOW, "30d", names)


@pytest.mark.parametrize(
    ("query", "since", "until", "name"),
    [
        ("", NOW - 30 * DAY_S, NOW, "30d"),
        ("range=1h", NOW - 3600, NOW, "1h"),
        ("range=1y", NOW - 365 * DAY_S, NOW, "1y"),
        ("since=2023-11-14&until=2023-11-14", MIDNIGHT, MIDNIGHT + DAY_S, None),
        ("since=1699920000.5", MIDNIGHT + 0.5, NOW, None),
        ("since=2023-11-14T00:00&until=2023-11-14T12:30:00Z", MIDNIGHT, MIDNIGHT + 45_000, None),
        ("since=2023-11-14T01:00:00%2B01:00", MIDNIGHT, NOW, None),
        ("since=2023-11-13T19:00:00.5-0500", MIDNIGHT + 0.5, NOW, None),
        ("range=7d&until=2023-11-13", MIDNIGHT - 7 * DAY_S, MIDNIGHT, "7d"),
    ],
)
def test_what_is_asked_for(query: str, since: float, until: float, name: str | None) -> None:
    assert asked(query) == TimeRange(since, until, name)


def test_days_are_those_with_a_moment_of_the_range() -> None:
    one = asked("since=2023-11-14&until=2023-11-14")
    assert (one.first_day, one.last_day) == (19675, 19675)
    assert asked("since=2023-11-13&until=1699920001").last_day == 19675
    assert (asked("range=7d").first_day, asked("range=7d").last_day) == (19669, 19675)
    assert (asked("range=1h").first_day, asked("range=1h").last_day) == (19675, 19675)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("range=2h", "use one of: 1h, 6h, 1d, 7d, 30d, 90d, 1y"),
        ("range=7d&since=2023-01-01", "exclude each other"),
        ("since=2023-13-01", "since='2023-13-01' is not a time"),
        ("since=2024-01-01", "must be before now"),
        ("since=2023-01-02&until=2023-01-01", "must be before until=2023-01-01"),
        ("since=2023-11-14T25:00", "give a date such as 2026-11-22, a time such as 2026-11-22T08:30:00Z, or UTC"),
        ("since=2023-11-14%2B01:00", "is not a time"),
        ("since=1969-12-31", "is not a time"),
        ("since=1e300", "is not a time"),
        ("until=nan", "is not a time"),
    ],
)
def test_what_is_refused_says_what_to_do(query: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        asked(query)


def test_a_page_of_days_offers_no_hours() -> None:
    with pytest.raises(BadRequest, match="use one of: 1d, 7d, 30d, 90d, 1y"):
        asked("range=1h", OF_DAYS)
