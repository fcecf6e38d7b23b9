"""The page Waste on planted jobs: who improved, orders, spans. Its figures are those of SQL in test_displayed.py."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from flask.testing import FlaskClient
from tests import make
from tests.make import not_none


def ask(planted: FlaskClient, **query: Any) -> Any:
    return make.answered(planted.get("/api/v1/waste", query_string=query))


def test_who_improved_stands_first_with_what_it_is_worth(planted: FlaskClient) -> None:
    first, *others = ask(planted, sort="memory_improved")["rows"]
    assert (first["name"], first["memory"]["improved_hours"]) == ("imp", pytest.approx(0.6 * 5 * 30))
    assert all((row["memory"]["improved_hours"] or 0) == pytest.approx(0) for row in others)
    # Beside days on which the request was the same, nothing has changed.
    same = ask(planted, since="2023-12-20", until="2023-12-24", sort="memory_improved")
    assert (same["before_first_day"], same["before_last_day"]) == ("2023-12-15", "2023-12-19")
    assert {round(row["memory"]["improved_hours"], 6) for row in same["rows"]} == {0}
    # The span before would have two days less.
    longer = ask(planted, since="2023-12-12", until="2024-01-11", sort="memory_improved")
    assert (longer["before_first_day"], longer["memory"]["before_unused_share"]) == (None, None)


def test_where_nothing_is_freed_is_said_why(planted: FlaskClient) -> None:
    fit = next(row for row in ask(planted, limit=100)["rows"] if row["name"] == "kim")
    reason = fit["memory_advice"]["kept"]
    assert (fit["memory_advice"]["ask_for"], bool(reason)) == (None, True)
    row = next(row for row in planted.get("/waste?limit=100").text.split("<tr>") if ">kim</a>" in row)
    assert f"as before: {reason}" in html.unescape(row)


def test_every_column_sorts_both_ways(planted: FlaskClient) -> None:
    for sort in ("memory", "processors_share", "runtime_improved", "memory_freed", "jobs", "name"):
        resource, _, figure = sort.partition("_")
        field = {
            "share": "unused_share", "improved": "improved_hours", "freed": "freed_hours", "": "unused_hours"
        }[figure]  # fmt: skip
        for order, reverse in (("asc", False), ("desc", True)):
            rows = ask(planted, sort=sort, order=order)["rows"]
            values = [row[sort] if sort in ("jobs", "name") else row[resource][field] for row in rows]
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=reverse)


def test_a_span_without_an_earlier_one_leads_to_one_that_has_it(planted: FlaskClient) -> None:
    page = " ".join(planted.get("/waste?range=1y&sort=memory_improved").text.split())
    assert "No job is counted before 2023-11-13, so there is nothing to compare with. Choose a shorter range" in page
    half = not_none(re.search(r'such as <a href="([^"]+)">2023-12-13 to 2024-01-11</a>', page), page)
    menu = not_none(re.search(r'href="([^"]+)"[^>]*>Improved most<', page))
    for link in (half[1], menu[1]):
        assert "imp</a> on alpha improved most" in " ".join(planted.get(html.unescape(link)).text.split())
    assert "since=" not in re.search(r'href="([^"]+)"[^>]*>Improved most<', planted.get("/waste").text)[1]  # type: ignore[index]
