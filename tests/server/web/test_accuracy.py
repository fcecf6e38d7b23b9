"""The page Accuracy on planted histories. Its figures are compared with SQL in test_displayed.py."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient
from tests import make
from tests.server.web.planted import BROKEN_ON, SCRIPT, USERS


def ask(planted: FlaskClient, **query: Any) -> Any:
    return make.answered(planted.get("/api/v1/accuracy", query_string=query))


def test_who_broke_stands_first_with_the_first_bad_day(planted: FlaskClient) -> None:
    found = ask(planted, range="90d", metric="memory")
    assert found["broken"] == 1
    first, second, *_ = found["rows"]
    assert (first["name"], first["metric"], first["first_bad_day"]) == ("kim", "memory", BROKEN_ON)
    assert first["accuracy_before"] == pytest.approx(0.94, abs=0.01)
    assert first["accuracy_since"] == pytest.approx(0.55, abs=0.02)
    assert (second["name"], second["first_bad_day"]) == ("low", None)  # always bad is no break
    assert {week["is_worse"] for week in second["weeks"]} == {False}
    assert [week["first_day"] for week in first["weeks"] if week["is_worse"]] == [
        "2023-12-25",
        "2024-01-01",
        "2024-01-08",
    ]
    assert {row["name"]: row["first_bad_day"] for row in found["rows"]}["zoe"] is None
    page = " ".join(planted.get("/accuracy?range=90d").text.split())
    assert f"since <strong>{BROKEN_ON}</strong>, 94 % accurate before" in page
    assert SCRIPT not in page
    application = ask(planted, range="90d", metric="memory", by="application")
    assert application["rows"][0]["name"] == "app-kim"
    assert application["rows"][0]["first_bad_day"] == BROKEN_ON


def test_a_share_held_is_marked_where_chance_does_not_explain_it(planted: FlaskClient) -> None:
    found = ask(planted, range="90d", metric="memory")
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["ann"]["held"] < 0.91
    assert {name for name, row in rows.items() if row["is_short"]} == {"ann"}
    memory = next(metric for metric in found["metrics"] if metric["metric"] == "memory")
    assert memory["promised"] == 0.95
    assert memory["is_short"] is False  # 98 % of all are held


def test_lists_are_narrowed_and_counted(planted: FlaskClient) -> None:
    found = {row["name"] for row in ask(planted, range="90d", metric="memory", search="O")["rows"]}
    assert found == {"low", "zoe", "memo", "slow"}
    assert {row["cluster"] for row in ask(planted, range="90d", cluster="beta")["rows"]} == {"beta"}
    assert ask(planted, range="90d", metric="bandwidth")["rows"] == []
    limited = ask(planted, range="90d", metric="memory", limit=1)
    assert (len(limited["rows"]), limited["total"], limited["broken"]) == (1, len(USERS) + 1, 1)
    clusters = ask(planted, range="90d", by="cluster")["rows"]
    assert {row["name"] for row in clusters} == {"alpha", "beta"}


def test_without_an_end_it_is_about_the_newest_weeks(planted: FlaskClient) -> None:
    found = ask(planted)
    assert (found["first_day"], found["last_day"]) == ("2023-12-11", "2024-01-14")
    assert len(found["week_starts"]) == 5
    none = ask(planted, since="1999-01-01", until="1999-02-01")
    assert (none["first_day"], none["rows"]) == (None, [])
    assert "No finished job of these weeks" in planted.get("/accuracy?since=1999-01-01&until=1999-02-01").text
