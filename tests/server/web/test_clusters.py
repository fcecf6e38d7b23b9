"""An unknown cluster is answered 404 with the known ones, wherever one can be named."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

JOB = {"cluster": "alhpa", "user": "ada", "metric": "memory"}
KNOWN = "known: a, alpha, beta, gamma, nowhere"


@pytest.mark.parametrize(
    "path",
    [
        "predictions?user=ada&cluster=alhpa",
        "predictions?user=ada&cluster=alhpa&processors=4",
        "users?cluster=alhpa",
        "user?name=ada&cluster=alhpa",
        "jobs?cluster=alhpa",
        "job?name=77.server&cluster=alhpa",
        "nodes?cluster=alhpa",
        "node?name=n1&cluster=alhpa",
    ],
)
def test_an_unknown_cluster_in_a_query(served: Any, path: str) -> None:
    answer = served.client("scheduler").get(f"/api/v1/{path}")
    assert answer.status_code == 404
    assert "query parameter cluster = 'alhpa': unknown cluster" in answer.json["error"]
    assert KNOWN in answer.json["error"]


def test_an_unknown_cluster_in_a_body(served: Any) -> None:
    client = served.client("scheduler")
    questions = [{**JOB, "cluster": "alpha"}, JOB]
    for path, body, place in (
        ("predictions", {"questions": questions}, "questions[1].cluster"),
        ("outcomes", {**JOB, "value": 1.0}, "cluster"),
    ):
        answer = client.post(f"/api/v1/{path}", json=body)
        assert answer.status_code == 404
        assert answer.json["error"] == f"{place} = 'alhpa': unknown cluster; {KNOWN}"


def test_a_declared_cluster_without_jobs_is_answered(served: Any) -> None:
    client = served.client("scheduler")
    answer = client.get("/api/v1/predictions?user=ada&cluster=nowhere&metric=memory")
    assert answer.json["predictions"][0]["reason"].startswith("no history")
    assert client.get("/api/v1/nodes?cluster=nowhere").json["nodes"] == []
