"""Offers through the whole server: nothing that was answered is lost when it is killed."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests import make

from jobsight_server.auth.tokens import create_token
from jobsight_server.storage.engine import open_engine

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


def test_a_killed_server_keeps_the_places_that_it_sold(tmp_path: Path) -> None:
    flags = ("--offers-nodes", "alpha=4", "--offers-strategy", "conservative")
    site = make.site(tmp_path / "site", "--query-workers", "2", *flags)
    engine = open_engine(site.database)
    with engine.begin() as connection:
        _, token = create_token(connection, "scheduler", "test", time.time())

    def post(path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{site.url}/api/v1/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.load(answer)

    deadline = time.time() + 10 * 3600
    job = {"cluster": "alpha", "user": "ada", "nodes": 3, "walltime_s": 3600, "deadline": deadline}
    with site.serve():
        first, second = (post("offers", **job)["offer"] for _ in range(2))
        assert second["latest_start"] >= first["latest_end"]
        post(f"offers/{first['id']}/confirm")
        site.kill()
    with site.serve():
        third = post("offers", **job)["offer"]
        assert third["latest_start"] >= second["latest_end"] - 1e-3
        plan = site.api("plan")
        states = [(row["id"], row["state"], row["latest_start"]) for row in plan["jobs"]]
        assert states == [
            (first["id"], "confirmed", first["latest_start"]),
            (second["id"], "offered", second["latest_start"]),
            (third["id"], "offered", third["latest_start"]),
        ]
        post(f"offers/{first['id']}/ended", outcome="finished")
        # Half as long, since the hour before the second job has become shorter in the meantime.
        assert post("offers", **job | {"walltime_s": 1800})["offer"]["latest_start"] < first["latest_end"]
    engine.dispose()
