"""A front with a small application behind it, and clients that write bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jobsight_server.front.addresses import listen
from jobsight_server.front.connection import Connection
from jobsight_server.front.server import Front
from jobsight_server.front.table import ConnectionLimits
from jobsight_server.front.wsgi import WsgiBridge
from site_run import wait_until

BODY_LIMIT = 100_000
# Patient: a busy machine holds a client of these tests up for longer than a second.
LIMITS = ConnectionLimits(
    held_bytes=400_000, connections=100, header_s=30.0, body_s=30.0, answer_s=30.0, idle_s=30.0, linger_s=0.6,
    slowest_bytes_per_s=10**9,
)  # fmt: skip


@dataclass
class Running:
    """A front that serves in a thread of this process."""

    limits: ConnectionLimits
    held: threading.Event = field(default_factory=threading.Event)
    recorded: dict[str, int] = field(default_factory=dict)
    connection: Callable[..., Connection] = Connection

    def __enter__(self) -> Running:
        self._lane = ThreadPoolExecutor(2)
        listener = listen("127.0.0.1:0", 128)
        self.port: int = listener.getsockname()[1]
        bridge = WsgiBridge(
            self._app, lambda method, path, length: self._lane if path.startswith("/slow") else None, BODY_LIMIT
        )
        self.front = Front(bridge, self.limits, 5, self.recorded.update, connection=self.connection)
        self._thread = threading.Thread(target=self.front.run, args=([listener],))
        self._thread.start()
        wait_until(lambda: self.front.started, 60, lambda: "the front does not start", pause_s=0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._lane.shutdown()

    def stop(self) -> None:
        self.front.stop()

    def open(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        client.sendall(sent)
        return client

    def ask(self, sent: bytes) -> bytes:
        """Return the whole answer until the server closes."""
        with self.open(sent) as client:
            return read_all(client)

    def get(self, path: str = "/") -> bytes:
        return self.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    def _app(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow/held":
            assert self.held.wait(60)
        if environ["PATH_INFO"] == "/broken":
            raise ZeroDivisionError("broken on purpose")
        body = environ["wsgi.input"].read()
        if environ["PATH_INFO"].endswith("/big"):
            body = b"x" * 20_000_000
        shown = {name: environ.get(name) for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_LENGTH")}
        headers = [
            ("Content-Type", "text/plain"),
            ("X-Seen", repr(shown)),
            ("X-Cookie", environ.get("HTTP_COOKIE", "")),
        ]
        start_response("200 OK", headers)
        return [body or b"empty"]


def read_all(client: socket.socket) -> bytes:
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture(scope="module")
def plain() -> Iterator[Running]:
    """One front with ``LIMITS`` for all tests of a module that change none."""
    with Running(LIMITS) as front:
        yield front


@pytest.fixture
def running(plain: Running) -> Iterator[Callable[..., Running]]:
    """Start a front with some of ``LIMITS`` changed, and stop it after the test; without a change, ``plain``."""
    fronts: list[Running] = []

    def start(**changes: Any) -> Running:
        if not changes:
            return plain
        fronts.append(Running(replace(LIMITS, **changes)).__enter__())
        return fronts[-1]

    yield start
    for front in fronts:
        front.held.set()
        front.__exit__()
