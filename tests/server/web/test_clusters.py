"""An unknown cluster is answered 404 with the known ones, wherever one can be named."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

JOB = {"cluster": "alhpa", "user": "ada", "metric": "memory"}
KNOWN = "known: a, alpha, beta, gamma, nowhere"


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
