"""What a scheduler asks of the plan and reports to it, through the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

NOW = 1_700_000_000.0
HOUR = 3600.0
JOB = {"cluster": "alpha", "user": "ada", "nodes": 2, "walltime_s": "02:00:00"}


@pytest.fixture
def post(restarted: Any) -> Callable[..., Any]:
    return restarted(plan_nodes="alpha=4")


def test_x(post: Any) -> None:
    answer = post("/api/v1/offers", **JOB, deadline=NOW + 10 * HOUR)
    print(answer.json)
    answer = post("/api/v1/risk", **JOB, hours=1.5)
    print(answer.json)
    for what in (
        "confirm",
        "started",
    ):
        print(post(f"/api/v1/offers/1/{what}").json)
    print(post("/api/v1/offers/1/ended", outcome="finished").json)
    assert 0
