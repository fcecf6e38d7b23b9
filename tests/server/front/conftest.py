"""A front with a small application behind it, and clients that write bytes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jobsight_server.front.lanes import Lane
from jobsight_server.front.limits import Limits
from jobsight_server.front.server import Front, listen

BODY_LIMIT = 100_000
QUICK = Limits(
    held_bytes=400_000, connections=100, header_s=0.6, body_s=0.6, answer_s=0.6, idle_s=2.0, linger_s=0.6,
    slowest_bytes_per_s=10**9,
)  # fmt: skip


@dataclass
class Running:
    """A front that serves in a thread of this process."""

    limits: Limits
    held: threading.Event = field(default_factory=threading.Event)
    recorded: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Running:
        self._lane = Lane("test", 2)
        listener = listen("127.0.0.1:0")
        self.port: int = listener.getsockname()[1]
        self.front = Front(
            self._app,
            lambda method, path: self._lane if path.startswith("/slow") else None,
            self.limits,
            lambda method, path: BODY_LIMIT,
            judges_length=lambda path: path == "/judge",
            record=self.recorded.update,
        )
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.front.serve(listener, 5.0, started.set)))
        self._thread.start()
        assert started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._lane.close(5)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.front.loop.call_soon_threadsafe(self.front.stop)

    def open(self, sent: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        client.sendall(sent)
        return client

    def ask(self, sent: bytes) -> bytes:
        """All that comes back until the server closes."""
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


@pytest.fixture
def running() -> Iterator[Callable[..., Running]]:
    """Starts a front with some of ``Limits`` changed; stops it after the test."""
    fronts: list[Running] = []

    def start(**changes: Any) -> Running:
        fronts.append(Running(replace(QUICK, **changes)).__enter__())
        return fronts[-1]

    yield start
    for front in fronts:
        front.held.set()
        front.__exit__()
