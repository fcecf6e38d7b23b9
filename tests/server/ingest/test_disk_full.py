"""A full disk: ingest answers 503, health says the same, and both recover by themselves."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage.engine import open_engine
from jobsight_server.upgrade.migrate import upgrade
from site_run import wait_until

Serve = Callable[..., Any]
REASON = "the disk is full"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "jobsight-test", str(place)]
    done = subprocess.run(command, capture_output=True, text=True) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip(f"no small file system can be mounted: {done.stderr.strip() if done else 'not root'}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def full_engine(small_disk: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{small_disk / 'jobsight.db'}")
    upgrade(engine)
    yield engine
    engine.dispose()


def fill(place: Path) -> Path:
    """Take all that is left."""
    file = place / "ballast"
    with file.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            return file


def test_health_says_what_ingest_says(
    small_disk: Path, full_engine: Engine, serve_writer: Serve, golden: dict[str, Any]
) -> None:
    def batch(sequence: int) -> bytes:
        n = 400
        time = [1_700_000_000.0 + sequence + k / n for k in range(n)]
        columns = {"bytes_in": [range(n)] * 2, "bytes_out": [range(n)] * 2}
        rest = {"memory_used_bytes": range(n), "cpu_busy_s": range(n), "marks": []}
        body = {**golden, "sequence": sequence, "time": time, **columns, **rest}
        return json.dumps(body, default=list).encode()

    with serve_writer(full_engine) as writer:
        reading = open_engine(str(full_engine.url), "read")
        settings = load_settings(flags={"database": str(full_engine.url), "ingest_listen": f"127.0.0.1:{writer.port}"})
        main = create_app(settings, reading, full_engine).test_client()
        assert writer.post(batch(1))[0] == 200
        assert (main.get("/ready").status_code, writer.health()[0]) == (200, 200)

        ballast = fill(small_disk)
        for number in (2, 3):
            status, answer, headers = writer.send(batch(number))
            assert (status, headers["Retry-After"], answer["error"]) == (503, "5", REASON)
            ready = main.get("/ready")
            assert (ready.status_code, ready.headers["Retry-After"]) == (503, "5")
            assert ready.json["reason"] == f"the writer does not store batches: {REASON}"
            assert (writer.health()[0], writer.health()[1]["reason"]) == (503, REASON)
        # Content that can never be stored is not answered 4xx while it cannot be kept: its agent would drop it.
        assert writer.post(b"not JSON " * 5000)[0] == 503

        ballast.unlink()
        # Nothing is sent meanwhile: the writer finds out by itself.
        wait_until(lambda: main.get("/ready").status_code == 200, 30, lambda: str(writer.health()), 0.05)
        assert writer.health()[1] == {"status": "ok", "reason": None}
        assert [writer.post(batch(number))[1]["status"] for number in (2, 3)] == ["stored", "duplicate"]
        assert writer.post(b"not JSON")[0] == 422
        assert writer.balance()["stored"] == 3
        assert writer.counts()["batches_rejected", "database"] == 3
        assert writer.rows("SELECT sum(samples) FROM readings") == [(1200,)]
        reading.dispose()
