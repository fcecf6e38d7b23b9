"""The page and the API of Unix groups and accounts, and both in questions."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from jobsight_server.storage.job_counts import count_all
from jobsight_server.storage.schema import jobs

HOSTILE = "<img src=x onerror=alert(1)>'; --"
URL = "/api/v1/groups"


@pytest.fixture
def grouped(served: Any, engine: Any) -> Any:
    """The same site with an account and a group on each job."""
    with engine.begin() as connection:
        connection.execute(update(jobs).values(account=HOSTILE, group="chem"))
        connection.execute(update(jobs).where(jobs.c.user == "ada").values(account="proj1"))
        count_all(connection)
    return served


@pytest.mark.storage
def test_the_page_escapes_names(grouped: Any) -> None:
    answer = grouped.client("scheduler").get(URL, query_string={"by": "account", "cluster": "alpha"}).json
    assert (answer["by"], answer["total"]) == ("account", 2)
    assert {group["name"]: group["users"] for group in answer["groups"]}["proj1"] == 1
    client = grouped.person()
    by_account = client.get("/groups", query_string={"by": "account"})
    assert by_account.status_code == 200
    assert "<img src=x" not in by_account.text
    assert "&lt;img src=x" in by_account.text
    assert "chem" in client.get("/groups").text
    assert 'href="/groups?by=account"' in client.get("/users").text


def test_group_and_account_are_part_of_questions(grouped: Any) -> None:
    client = grouped.client("scheduler")
    asked = {"cluster": "alpha", "user": "ada", "account": "proj1", "metric": "bandwidth"}
    [by_query] = client.get("/api/v1/predictions", query_string=asked).json["predictions"]
    [by_body] = client.post("/api/v1/predictions", json={"questions": [asked | {"group": "chem"}]}).json["predictions"]
    assert by_query["value"] == by_body["value"]
    for wrong in ({"account": 5}, {"group": ["a"]}, {"account": "a\x00"}):
        answer = client.post("/api/v1/predictions", json={"questions": [asked | wrong]})
        assert answer.status_code == 400, answer.text
        assert "account" in answer.text or "group" in answer.text
