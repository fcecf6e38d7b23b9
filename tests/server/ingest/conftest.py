"""Batches for the ingest tests, and a writer that serves them over real HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine
from tests import make

from jobsight_server.auth.tokens import create_token
from jobsight_server.front.addresses import listen
from jobsight_server.ingest.committer import GroupCommitter
from jobsight_server.ingest.reception import Reception
from jobsight_server.ingest.wire import AgentReport, Batch, BatchMark
from jobsight_server.serve.writer import writer_front
from jobsight_server.settings.declared import Settings
from jobsight_server.storage.readings.samples import read_samples
from jobsight_server.storage.readings.sent import BatchInterface

MakeBatch = Callable[..., Batch]
NOW = 1_700_000_100.0
PARTS = ("stored", "duplicate", "quarantined", "rejected")


@pytest.fixture
def make_batch() -> MakeBatch:
    """Make a batch of one interface: ``make_batch(time=[...], bytes_in=[...])``; what is not given is plain."""

    def make(**changes: Any) -> Batch:
        time = changes.pop("time", [1000.0, 1010.0, 1020.0])
        n = len(time)
        interfaces = changes.pop("interfaces", [BatchInterface("eth0", "ethernet", changes.pop("width", 64), 1e9)])
        bytes_in = changes.pop("bytes_in", [100 * i for i in range(n)])
        bytes_out = changes.pop("bytes_out", [0] * n)
        values: dict[str, Any] = {
            "format": 1,
            "cluster": "alpha",
            "node": "n001",
            "boot_id": "boot-1",
            "sequence": 1,
            "cpus": 4,
            "interfaces": interfaces,
            "time": time,
            "bytes_in": bytes_in if bytes_in and isinstance(bytes_in[0], list) else [bytes_in],
            "bytes_out": bytes_out if bytes_out and isinstance(bytes_out[0], list) else [bytes_out],
            "memory_used_bytes": [1 << 30] * n,
            "cpu_busy_s": [float(i) for i in range(n)],
            "agent": AgentReport(),
        }
        values.update(changes)
        values["marks"] = [BatchMark(*mark) for mark in values.get("marks", [])]
        return Batch(**values)

    return make


def stored(engine: Engine, node_id: int = 1) -> list[tuple[Any, ...]]:
    """The node's readings ``(time, in, out, cpu, memory, gap, ib in, ib out)``."""
    with engine.connect() as connection:
        return read_samples(connection, node_id, 0.0, 1e12).rows()


@dataclass
class Writer:
    """A writer that serves on ``port``; ``post`` answers (status, JSON)."""

    port: int
    engine: Engine
    agent_token: str
    scheduler_token: str
    committer: GroupCommitter
    lane: ThreadPoolExecutor
    stop: Callable[[], None]

    def post(self, body: bytes, token: str | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
        status, answer, _ = self.send(body, token, **headers)
        return status, answer

    def send(
        self, body: bytes, token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        """Send, and return the answer's headers too."""
        authorization = {"Authorization": f"Bearer {self.agent_token if token is None else token}"}
        given_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask("POST", "/api/v1/samples", body, authorization | given_headers)

    def health(self) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        return self._ask("GET", "/health", None, {})

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], http.client.HTTPMessage]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer, response.headers

    def balance(self) -> dict[str, int]:
        """Batches by outcome; asserts that every batch has one."""
        counts = self.counts()
        sums = dict.fromkeys(("received", *PARTS), 0)
        for (name, _), value in counts.items():
            short = name.removeprefix("batches_")
            if short in sums:
                sums[short] += value
        assert sums["received"] == sum(sums[part] for part in PARTS)
        return sums

    def counts(self) -> dict[tuple[str, str], int]:
        self.committer.flush()
        return make.counts(self.engine)

    def readings(self) -> list[tuple[Any, ...]]:
        return stored(self.engine)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return make.rows(self.engine, query)


@contextmanager
def serving(engine: Engine, clock: Callable[[], float] = lambda: NOW, **flags: Any) -> Iterator[Writer]:
    """A writer on ``engine`` during the block, which has no state of its own."""
    with engine.begin() as connection:
        tokens = [create_token(connection, role, "test", 0.0)[1] for role in ("agent", "scheduler")]
    fixed: dict[str, Any] = {"database": "unused", "clusters": ("alpha",), "max_body_bytes": 100_000}
    settings = Settings(**fixed | {"max_unpacked_bytes": 1_000_000} | flags)
    lane, listener = ThreadPoolExecutor(8), listen("127.0.0.1:0", 128)
    reception = Reception(settings, engine, lane, clock)
    front = writer_front(reception, settings)
    thread = threading.Thread(target=front.run, args=([listener],))
    thread.start()
    try:
        port, stop = listener.getsockname()[1], front.stop
        yield Writer(port, engine, tokens[0], tokens[1], reception.committer, lane, stop)
    finally:
        stop()
        thread.join()
        lane.shutdown()
        reception.committer.close()


@pytest.fixture
def writer(engine: Engine) -> Iterator[Writer]:
    with serving(engine) as writer:
        yield writer


@pytest.fixture
def serve_writer() -> Callable[..., Any]:
    """``serving`` itself, for tests that start the writer again or with other settings."""
    return serving


@pytest.fixture
def golden() -> dict[str, Any]:
    """A batch as an agent sends it, read at ``NOW`` less some seconds."""
    return dict(make.GOLDEN)
