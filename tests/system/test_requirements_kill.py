"""Requirements through the whole server: nothing that was acknowledged is lost when it is killed."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from jobsight_server.auth import create_token
from jobsight_server.storage.engine import open_engine
from site_run import Site, free_address

JOB = {"cluster": "alpha", "user": "ada", "application": "cfd", "memory_bytes": "32G"}
OF = {name: JOB[name] for name in ("cluster", "user")}
GIB = 2**30


def post(site: Site, token: str, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{site.url}/api/v1/{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_killed_server_goes_on_where_it_was_and_learns_again_under_other_settings(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", ["alpha"], free_address(), ("--requirements-estimator", "last-instance"))
    engine = open_engine(site.database)
    with engine.begin() as connection:
        _, token = create_token(connection, "scheduler", "test", time.time())
    with site.serve():
        first, still_open = (post(site, token, "requirements", JOB) for _ in range(2))
        post(site, token, "outcomes", OF | {"requirement": first["id"], "value": 6 * GIB})
        site.kill()
    with site.serve():
        assert post(site, token, "requirements", JOB)["memory_bytes"] == 6 * GIB
        report = OF | {"requirement": still_open["id"], "value": 20 * GIB}
        assert [post(site, token, "outcomes", report)["status"] for _ in range(2)] == ["stored", "duplicate"]
        found = site.api("requirements")
        assert (found["asked"], found["finished"], found["groups"][0]["given_bytes"]) == (3, 2, 20 * GIB)
    site._command += ["--requirements-estimator", "jobsight", "--memory-capacities", "24G 32G"]
    with site.serve():
        # What was reported is evidence for Jobsight's own answer as well, in one of the site's capacities.
        answer = post(site, token, "requirements", JOB)
        assert answer["memory_bytes"] in (24 * GIB, 32 * GIB)
        assert "2 jobs like it" in answer["reason"]
    engine.dispose()
