"""Servers that misbehave each in their own way, for clients that must not wait for them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Serve = Callable[[socket.socket], None]
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def slack_s() -> float:
    """Tolerance on a limit: half a second times the running programs per core.

    At most 2 s: whatever waits until the servers below end takes far longer.
    """
    return min(2.0, 0.5 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def hang(connection: socket.socket) -> None:
    """Accept and never answer."""
    connection.recv(65536)
    time.sleep(20)


def drip(connection: socket.socket) -> None:
    """Send a valid answer, a byte every 40 ms: more than ten seconds in all."""
    for byte in _HEAD % 200 + b'{"text": "late"}'.ljust(200):
        connection.sendall(bytes([byte]))
        time.sleep(0.04)


def huge(connection: socket.socket) -> None:
    """Send a header that never ends, as fast as it is read."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X: " + b"y" * 65536)


def says(answer: bytes) -> Serve:
    """Answer any request with these bytes, and close."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    return serve


def with_body(body: bytes, length: int | None = None) -> Serve:
    """Answer 200 with this body."""
    return says(_HEAD % (len(body) if length is None else length) + body)


def in_pieces(body: bytes) -> Serve:
    """Answer 200 with this body, some bytes every 10 ms."""
    answer = _HEAD % len(body) + body

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        for begin in range(0, len(answer), 20):
            connection.sendall(answer[begin : begin + 20])
            time.sleep(0.01)

    return serve


GARBAGE = {
    "nothing": says(b""),
    "noise": says(bytes(range(256)) * 40),
    "html": with_body(b"<html>It works!</html>"),
    "no json": with_body(b'{"text": '),
    "a number": with_body(b"7"),
    "null": with_body(b"null"),
    "no text": with_body(b'{"text": null, "slurm": {"mem": 1}}'),
    "deep": with_body(b"[" * 30_000),
    "cut": with_body(b'{"text": "cut', 5000),
    "error": says(b"HTTP/1.1 500 Oh\r\nContent-Length: 12\r\n\r\nnot this one"),
    "chunked": says(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"text": "abcd"}\r\n0\r\n\r\n'),
}


@contextmanager
def serving(serve: Serve) -> Iterator[int]:
    """Run such a server during the block on the yielded port, with a thread for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        over = threading.Event()

        def handle(connection: socket.socket) -> None:
            with connection:
                connection.settimeout(5)
                with suppress(OSError):  # the client has left, as it should
                    serve(connection)

        def accept() -> None:
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            thread.join()


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def busy(port: int, refused: int) -> Iterator[int]:
    """Close the first ``refused`` connections at once, and pass each later one on to the server at ``port``."""
    left = iter(range(refused))

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one of them has left
            while part := source.recv(65536):
                target.sendall(part)

    def serve(connection: socket.socket) -> None:
        if next(left, None) is not None:
            return
        with socket.create_connection(("127.0.0.1", port)) as server:
            threading.Thread(target=copy, args=(connection, server), daemon=True).start()
            copy(server, connection)

    with serving(serve) as own:
        yield own
