"""A database that is stopped and started again under a running server: 503 meanwhile, then all goes on by itself."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import make
from tests.postgresql import PostgresqlServer
from tests.system.killed_site import Server

from site_run import wait_until

START = time.time() - 3600


@pytest.fixture
def database() -> Iterator[PostgresqlServer]:
    database = PostgresqlServer()
    try:
        database.start()
        yield database
    finally:
        database.remove()


def ask(url: str, token: str, body: bytes | None = None) -> tuple[int, str, Mapping[str, str]]:
    """Status, text and headers of the answer."""
    request = urllib.request.Request(url, body, {"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=40) as response:
            return response.status, response.read().decode(), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(), error.headers


def batch(sequence: int) -> bytes:
    now = START + 10 * sequence
    return make.batch(sequence=sequence, time=[now, now + 1, now + 2, now + 3])


def test_a_restart_of_the_database(database: PostgresqlServer, tmp_path: Path) -> None:
    server = Server(tmp_path / "site", database.url, ("alpha",), "--follow-interval-s", "0.2")
    agent, admin, log = server.agent_token_file.read_text(), server.token("admin"), server.log
    main, ingest = server.url, server.ingest_url
    server.start()
    try:
        assert ask(f"{ingest}/api/v1/samples", agent, batch(1))[0] == 200
        assert ask(f"{main}/api/v1/now", admin)[0] == 200

        database.stop()
        questions: list[tuple[str, str, bytes | None]] = [
            (f"{ingest}/api/v1/samples", agent, batch(2)),
            (f"{main}/api/v1/now", admin, None),
            (f"{main}/api/v1/predictions?cluster=alpha&user=ada", admin, None),
            (f"{main}/ready", "", None),
        ]
        for _ in range(2):  # the first request meets a connection that was lost, the second none at all
            for url, token, body in questions:
                status, text, headers = ask(url, token, body)
                assert (status, headers["Retry-After"]) == (503, "5"), (url, text)
                assert "database" in text, (url, text)
                assert not any(word in text for word in ("SELECT", "psycopg", "jobsight-pg-")), text
        assert ask(f"{ingest}/health", "")[0] == 503

        database.start()
        wait_until(lambda: _status(f"{main}/ready", agent) == 200, 180, log.read_text)
        assert ask(f"{ingest}/api/v1/samples", agent, batch(2))[0] == 200
        wait_until(lambda: _counted(main, admin), 180, log.read_text)
        assert "Traceback" not in log.read_text()
        assert log.read_text().count("starting it again") == 0
    finally:
        server.stop()


def _status(url: str, token: str) -> int:
    try:
        return ask(url, token)[0]
    except OSError:
        return 0


def _counted(main: str, admin: str) -> bool:
    """The answers 503 of the writer, and both batches."""
    status, text, _ = ask(f"{main}/api/v1/rejected", admin)
    counted: dict[Any, int] = {
        (entry["name"], entry["label"]): entry["value"] for entry in json.loads(text)["event_counts"]
    }
    return (
        status == 200
        and counted.get(("batches_stored", ""), 0) == 2
        and counted.get(("batches_rejected", "database"), 0) >= 2
    )
