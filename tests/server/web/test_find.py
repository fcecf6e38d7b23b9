"""The key ``/``: names of jobs, users, applications, accounts and nodes, each leading to its page."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine
from tests import make
from tests.server.savings.runs import ended, learn, write

from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def app(engine: Engine, database_url: str) -> object:
    write(
        engine,
        [
            ended(4711, user="ann", name="mesh", account="physics"),
            ended(4712, user="anton", name="anneal", account="physics"),
            ended(81, array_task="80_1", user="ann", name="mesh"),
        ],
    )
    with engine.begin() as connection:
        make.node(connection, "node7")
        make.node(connection, "sent1", cluster="beta")
        for name in ("logged1", "sent1.example.org", "cn1"):
            make.job(connection, f"on-{name}", cluster="beta", user="zed", on={name: 1})
        for cluster in ("beta", "gamma"):
            make.job(connection, f"on-both-{cluster}", cluster=cluster, user="zed", on={"cn": 1})
    learn(engine)
    return create_app(load_settings(flags={"database": database_url}), engine, engine)


@pytest.mark.parametrize(
    ("text", "leads_to"),
    [
        ("ann", "/user?cluster=alpha&name=ann"),
        ("anto", "/user?cluster=alpha&name=anton"),
        ("mesh", "/jobs?application=mesh"),
        ("phys", "/jobs?account=physics"),
        ("node", "/node?cluster=alpha&name=node7"),
        ("log", "/node?cluster=beta&name=logged1"),
        ("sent", "/node?cluster=beta&name=sent1"),
        ("sent1.example.org", "/node?cluster=beta&name=sent1.example.org"),
        ("4711", "/jobs?job_id=4711&cluster=alpha"),
        ("80", "/jobs?job_id=80&cluster=alpha"),
    ],
)
def test_a_name_leads_to_its_page(app: object, engine: Engine, text: str, leads_to: str) -> None:
    answer = make.person(app, engine).get("/find", query_string={"text": text})
    assert (answer.status_code, answer.location) == (303, leads_to)


def test_several_are_listed_and_users_find_only_their_own(app: object, engine: Engine) -> None:
    client = make.person(app, engine)
    page = client.get("/find?text=an").text
    assert page.count("<tr>") == 4, "two users and an application"
    assert "begins so" in client.get("/find?text=zz").text
    found = client.get("/api/v1/find?text=an&user=ann").get_json()["found"]
    assert found == []
    assert [each["kind"] for each in client.get("/api/v1/find?text=physics&user=ann").get_json()["found"]] == [
        "account"
    ]
    assert client.get("/api/v1/find?text=4712&user=ann").get_json()["found"] == []
    assert client.get("/api/v1/find?user=%00").status_code == 400


def test_nodes_that_only_logs_name_are_found_on_each_cluster(app: object, engine: Engine) -> None:
    client = make.person(app, engine)
    found = client.get("/api/v1/find?text=cn").get_json()["found"]
    assert [(each["name"], each["cluster"]) for each in found] == [("cn", "beta"), ("cn", "gamma")]
    assert [each["name"] for each in client.get("/api/v1/find?text=cn1").get_json()["found"]] == ["cn1"]
    assert "cn" not in client.get("/find?text=cn&user=ann").text.partition("<table")[2]
