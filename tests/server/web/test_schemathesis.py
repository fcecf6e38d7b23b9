"""Requests made from ``openapi.json`` against a running server: every answer is one that it declares.

``JOBSIGHT_OPENAPI_EXAMPLES`` is the number of random examples per route; 60 are more than 10,000 requests. They are
the same in every run, unless ``JOBSIGHT_NEW_EXAMPLES`` is set.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.make import not_none

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = os.environ.get("JOBSIGHT_OPENAPI_EXAMPLES", "5")
# 4,000 requests go through the limits of every parameter: for the role that may do everything, as most routes answer
# the others only that they may not.
PHASES = {"admin": "coverage,fuzzing,stateful", "scheduler": "fuzzing,stateful", "agent": "fuzzing,stateful"}
SEED = () if os.environ.get("JOBSIGHT_NEW_EXAMPLES") else ("--seed", "1")

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_openapi_says_what_is_answered_to_each_role(served: Any, address: str, tmp_path: Path) -> None:
    for role, phases in PHASES.items():
        command = [Path(sys.executable).with_name("st"), "--config-file", CONFIG, "run"]
        command += [f"http://{address}/api/v1/openapi.json", "-H", f"Authorization: Bearer {served.tokens[role]}"]
        command += ["--phases", phases, "--max-examples", EXAMPLES, "--request-timeout", "60"]
        command += ["--no-shrink", "--no-color", "--generation-database", "none", *SEED]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, role + done.stdout[-8000:] + done.stderr[-2000:]
        cases = not_none(re.search(r"([0-9]+) generated", done.stdout))
        assert int(cases[1]) >= 200, role


@pytest.mark.parametrize(
    ("path", "query"),
    [("/api/v1/predictions", "cluster=alpha&user=%ff"), ("/api/v1/jobs", "user=a%c3"), ("/health", "%80=1")],
)
def test_what_is_not_utf8_is_refused(served: Any, path: str, query: str) -> None:
    answer = served.client("scheduler").get(path, environ_overrides={"QUERY_STRING": query})
    assert (answer.status_code, "the query is not UTF-8 text" in answer.json["error"]) == (400, True)


@pytest.mark.systems
def test_a_path_that_is_not_utf8_is_refused(served: Any) -> None:
    """Werkzeug's own server mends paths before the application sees them; gunicorn hands on what was sent."""
    raw = {"PATH_INFO": "/api/v1/resources/\xfe"}
    answer = served.client("scheduler").get("/api/v1/resources/x", environ_overrides=raw)
    assert (answer.status_code, "the path is not UTF-8 text" in answer.json["error"]) == (400, True)


def test_a_count_may_be_written_as_json_writes_numbers(served: Any) -> None:
    client = served.client("scheduler")
    asked = {"cluster": "alpha", "user": "ada", "metric": "memory"}
    for processors, status in ((4, 200), (4.0, 200), (2.5, 400)):
        answer = client.post("/api/v1/predictions", json={"questions": [{**asked, "processors": processors}]})
        assert answer.status_code == status
        if status == 400:
            assert "questions[0].processors = 2.5 is not a whole number" in answer.json["error"]
