"""Another process holds SQLite's write lock: questions are answered, changes are refused, `/ready` says so."""

from __future__ import annotations

import json
import sqlite3
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests import make

from jobsight_server.ingest.committer import READY_WITHIN_S
from site_run import wait_until

WAITING = {"cluster": "alpha", "jobs": [{"job_id": "1", "user": "ann", "submitted": 1_700_000_000.0}]}


def status(url: str, token: str = "", body: bytes | None = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_while_another_process_writes(tmp_path: Path) -> None:
    site = make.site(tmp_path)
    with site.serve(), ThreadPoolExecutor(9) as others:
        admin, agent, now = site.token("admin"), site.agent_token_file.read_text(), time.time()
        batch = make.batch(cluster="alpha", time=[now - 20.0 + number for number in range(4)], marks=[])
        with sqlite3.connect(tmp_path / "jobsight.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            body = json.dumps(WAITING).encode()
            changes = [others.submit(status, f"{site.url}/api/v1/jobs", admin, body) for _ in range(4)]
            sent = others.submit(status, f"{site.ingest_url}/api/v1/samples", agent, batch)
            assert status(f"{site.url}/api/v1/rejected", admin)[0] == 200
            assert not all(change.done() for change in changes), "the question waited for changes"
            wait_until(lambda: status(f"{site.url}/ready")[0] == 503, 60, lambda: "always ready")
            assert time.monotonic() - began < READY_WITHIN_S + 30.0  # busy machines take longer
            assert "the oldest batch has waited for" in status(f"{site.url}/ready")[1]["reason"]
            for change in changes:
                assert change.result()[0] == 503
                assert change.result()[1]["error"] == "the database is busy; try again"
            other.execute("ROLLBACK")
        wait_until(lambda: status(f"{site.url}/ready")[0] == 200, 60, lambda: "never ready")
        assert sent.result()[0] in (200, 503)
        assert status(f"{site.url}/api/v1/jobs", admin, body)[0] == 200
