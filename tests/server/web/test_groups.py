"""The page and the API of Unix groups and accounts, and both in questions."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from jobsight_server.auth.sessions import create_login
from jobsight_server.forecasts import ForecastConfig, rebuild
from jobsight_server.serve.app import create_app
from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import jobs

HOSTILE = "<img src=x onerror=alert(1)>'; --"
URL = "/api/v1/groups"


@pytest.fixture
def grouped(served: Any, serve: Any, engine: Any) -> Any:
    """The same site with an account and a group on each job, and profiles by account."""
    with engine.begin() as connection:
        connection.execute(update(jobs).values(account=HOSTILE, group="chem"))
        connection.execute(update(jobs).where(jobs.c.user == "ada").values(account="proj1"))
        count_all(connection)
    settings = serve(job_groups="user+account account user site")
    rebuild(engine, ForecastConfig(job_groups=(("user", "account"), ("account",), ("user",), ())))
    served.app = create_app(settings, engine, engine, served.clock)
    yield served
    served.app.extensions["jobsight"].answers.close()


def test_the_list_by_account_has_profiles(grouped: Any) -> None:
    answer = grouped.client("scheduler").get(URL, query_string={"by": "account", "cluster": "alpha"}).json
    assert (answer["by"], answer["profiled"], answer["total"]) == ("account", True, 2)
    of = {group["name"]: group for group in answer["groups"]}
    ada = of["proj1"]
    assert (ada["users"], ada["metrics"]["bandwidth"]["n"]) == (1, 3)
    assert ada["metrics"]["bandwidth"]["forecasts"]["history"] == pytest.approx(200.0)
    assert ada["metrics"]["bandwidth"]["pqm"] == pytest.approx(1 / 3)
    assert of[HOSTILE]["metrics"]["bandwidth"]["forecasts"]["locality"] == 5.0
    assert of[HOSTILE]["metrics"]["runtime"] is None


@pytest.mark.storage
def test_the_page_escapes_names_and_says_where_profiles_come_from(grouped: Any) -> None:
    client = grouped.client()
    with grouped.engine.begin() as connection:
        secret = create_login(connection, grouped.clock.now)
    assert client.get("/login", query_string={"once": secret}).status_code == 303
    by_account = client.get("/groups", query_string={"by": "account"})
    assert by_account.status_code == 200
    assert "<img src=x" not in by_account.text
    assert "&lt;img src=x" in by_account.text
    assert "No profiles are kept" not in by_account.text
    by_group = client.get("/groups")
    assert "chem" in by_group.text
    assert "No profiles are kept by group" in by_group.text
    assert 'href="/groups?by=account"' in client.get("/users").text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"by": "user"}, 400),
        ({"by": ""}, 400),
        ({"page": "0"}, 400),
        ({"page": "1" + "0" * 30}, 400),
        ({"page": "99999"}, 200),
        ({"page": "-1"}, 400),
        ({"cluster": "nowhere2"}, 404),
        ({"search": "%_\\"}, 200),
        ({"search": "\x00"}, 400),
        ({"who": "1"}, 400),
    ],
)
def test_hostile_queries_get_an_answer_with_a_message(grouped: Any, query: dict[str, str], status: int) -> None:
    answer = grouped.client("scheduler").get(URL, query_string=query)
    assert answer.status_code == status, answer.text
    assert answer.json["groups"] == [] if status == 200 else answer.json["error"]


def test_group_and_account_are_part_of_questions(grouped: Any) -> None:
    client = grouped.client("scheduler")
    asked = {"cluster": "alpha", "user": "new", "account": "proj1", "metric": "bandwidth"}
    [by_query] = client.get("/api/v1/predictions", query_string=asked).json["predictions"]
    [by_body] = client.post("/api/v1/predictions", json={"questions": [asked | {"group": "chem"}]}).json["predictions"]
    assert by_query["level"] == by_body["level"] == "account"
    assert (by_query["n"], by_query["value"]) == (3, by_body["value"])
    assert by_query["last_values"] == [100.0, 200.0, 300.0]
    for wrong in ({"account": 5}, {"group": ["a"]}, {"account": "a\x00"}):
        answer = client.post("/api/v1/predictions", json={"questions": [asked | wrong]})
        assert answer.status_code == 400, answer.text
        assert "account" in answer.text or "group" in answer.text
