"""A client that openapi-python-client generates from ``openapi.json`` reads answers of a running server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RELEASE = "openapi-python-client==0.29.1"
SECONDS = 300.0

# Three routes: a walk by cursor, a question in the query, and one in a body.
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[3])
from client import AuthenticatedClient
from client.api.default import get_api_v1_jobs, get_api_v1_predictions, post_api_v1_predictions
from client.models import AskedQuestion, GetApiV1PredictionsMetric, Questions

server = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)
jobs, more = [], {}
while True:
    page = get_api_v1_jobs.sync(client=server, limit=2, **more)
    jobs += [(run.cluster, run.job_id) for run in page.jobs]
    if page.next_ is None:
        break
    more = {"cursor": page.next_}
asked = {"cluster": "alpha", "user": "ada", "metric": "bandwidth"}
metric = GetApiV1PredictionsMetric.BANDWIDTH
one = get_api_v1_predictions.sync(client=server, cluster="alpha", user="ada", metric=metric)
many = post_api_v1_predictions.sync(client=server, body=Questions([AskedQuestion.from_dict(asked)]))
print(json.dumps({"jobs": jobs, "values": [found.predictions[0].value for found in (one, many)]}))
"""


@pytest.fixture(scope="module")
def tool(request: pytest.FixtureRequest) -> Path:
    """The programs of an environment with the generator, made once; skips where that fails, as without a network."""
    folder: Path = request.config.cache.mkdir(RELEASE)
    programs = folder / "bin"
    if not (programs / "openapi-python-client").exists():
        made = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False)
        install = [programs / "pip", "install", "--quiet", RELEASE]
        done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=SECONDS)
        if made.returncode or done.returncode:
            pytest.skip(f"{RELEASE} cannot be installed: {made.stderr or done.stderr}")
    return programs


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_generated_client_reads_what_is_answered(served: Any, address: str, tool: Path, tmp_path: Path) -> None:
    client = served.client("scheduler")
    described = tmp_path / "openapi.json"
    described.write_text(client.get("/api/v1/openapi.json").text)
    command = [tool / "openapi-python-client", "generate", "--path", described, "--meta", "none"]
    path = {"PATH": str(tool)}  # of ruff, by which it formats
    made = subprocess.run(
        [*command, "--output-path", tmp_path / "client", "--fail-on-warning"],
        capture_output=True, text=True, check=False, timeout=SECONDS, env=path,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    ask = [tool / "python", "-c", SCRIPT, f"http://{address}", served.tokens["scheduler"], tmp_path]
    asked = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    listed = client.get("/api/v1/jobs?limit=1000").json["jobs"]
    assert found["jobs"] == [[run["cluster"], run["job_id"]] for run in listed]
    assert found["values"] == [300.0, 300.0]
