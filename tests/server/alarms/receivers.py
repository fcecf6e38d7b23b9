"""A web server and a mail relay of the test's own, which keep what they receive."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """``status`` is what the web server answers; ``mails`` are sender, recipients and text."""

    port: int = 0
    status: int = 200
    posts: list[dict[str, Any]] = field(default_factory=list)
    gets: list[str] = field(default_factory=list)
    mails: list[tuple[str, list[str], str]] = field(default_factory=list)


@contextmanager
def web_server() -> Iterator[Received]:
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer()

        def do_GET(self) -> None:
            received.gets.append(self.path)
            self._answer()

        def _answer(self) -> None:
            self.send_response(received.status)
            self.send_header("Location", f"http://127.0.0.1:{received.port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_address[1]
    with _running(server):
        yield received


@contextmanager
def mail_relay() -> Iterator[Received]:
    received = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            sender, recipients = "", []
            self.wfile.write(b"220 relay\r\n")
            while line := self.rfile.readline().decode().strip():
                word = line.upper()
                if word.startswith("MAIL FROM:"):
                    sender = line[10:].partition(">")[0].strip("<> ")
                elif word.startswith("RCPT TO:"):
                    recipients.append(line[8:].partition(">")[0].strip("<> "))
                elif word == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b""
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        text += part
                    received.mails.append((sender, recipients, text.decode()))
                elif word == "QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                self.wfile.write(b"250 ok\r\n")

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_address[1]
    with _running(server):
        yield received


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
