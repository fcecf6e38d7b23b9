"""A server in place of Jobsight's, for tests of what agents send; and waiting."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Answer = tuple[int, Mapping[str, Any], Mapping[str, str]]
"""Status, body and headers."""
Request = http.server.BaseHTTPRequestHandler
Take = Callable[[Request, bytes], Answer | bytes]


@contextlib.contextmanager
def collecting(take: Take, port: int = 0, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server on the port that is given to the block. ``take`` gets each request and its body; its answer may be raw
    bytes."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer = take(self, self.rfile.read(int(self.headers["Content-Length"])))
            if isinstance(answer, bytes):
                self.wfile.write(answer)
                return
            status, content, headers = answer
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def wait_for(condition: Callable[[], object], seconds: float = 90.0) -> None:
    """Wait for ``condition``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
