"""Mail relays of the test's own: one that keeps what it receives, and one that drips its answers."""

from __future__ import annotations

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Received:
    """``mails`` are sender, recipients and text."""

    port: int = 0
    mails: list[tuple[str, list[str], str]] = field(default_factory=list)


@contextmanager
def dripping_relay(stage: str, every_s: float) -> Iterator[int]:
    """The port of a relay that, from ``stage`` on (greeting, or a command), sends a byte of its answer at a time."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self._answer("greeting", b"220 relay")
                while line := self.rfile.readline().decode().strip():
                    word = line.split()[0].upper()
                    self._answer(word, b"354 go on" if word == "DATA" else b"250 ok")
                    if word == "DATA":
                        while self.rfile.readline() not in (b".\r\n", b""):
                            pass
                        self._answer("TEXT", b"250 ok")

        def _answer(self, of: str, text: bytes) -> None:
            if of != stage:
                self.wfile.write(text + b"\r\n")
                return
            while True:  # a line that never ends
                self.wfile.write(text[:1])
                time.sleep(every_s)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with _running(server):
        yield server.server_address[1]


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
