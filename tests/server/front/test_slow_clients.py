"""Clients that drip, stall, idle, linger and do not read: their answers, without effect on others."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.front.conftest import read_all

from site_run import wait_until

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
STALLED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n"


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    wait_until(condition, seconds, lambda: what, pause_s=0.02)


def ended(client: socket.socket) -> bool:
    """Return whether the server has closed its end; discard earlier data."""
    client.settimeout(0.05)
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def empty(front: Any) -> bool:
    return len(front.front.table) == 0 and front.front.table.held_bytes == 0


def test_a_byte_now_and_then_does_not_move_the_deadline(running: Any) -> None:
    front = running(header_s=0.6, body_s=0.6)
    for begin, drip in ((b"GET / HTTP/1.1\r\nX-Drip: ", b"x"), (STALLED, b"x")):
        with front.open(begin) as client:
            began, answer = time.monotonic(), b""
            client.settimeout(0.05)
            while time.monotonic() - began < 60:
                try:
                    client.sendall(drip)
                    answer += (part := client.recv(65536))
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
                if not part:
                    break
            assert 0.5 < time.monotonic() - began < 55
            assert answer.startswith(b"HTTP/1.1 408 ") or not answer  # a reset may overtake the answer
    until(lambda: empty(front), "connections are left")
    assert front.front.table.dropped["request too slow"] == 2


def test_a_connection_that_sends_nothing_is_ended(running: Any) -> None:
    front = running(header_s=1.0, idle_s=1.0)
    silent, kept = front.open(), front.open(REQUEST)
    until(lambda: ended(silent) and ended(kept), "an idle connection is still open")
    until(lambda: empty(front), "connections are left")
    assert dict(front.front.table.dropped) == {"no request": 1}
    for client in (silent, kept):
        client.close()


@pytest.mark.exhaustive
def test_an_answer_that_is_not_read_ends_the_connection(running: Any) -> None:
    front = running(answer_s=1.0)
    for path in (b"/big", b"/slow/big"):
        client = front.open(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: len(front.front.table.unfinished) == 1, "the answer waits to be read")
        assert front.get().startswith(b"HTTP/1.1 200 ")
        until(lambda: empty(front), "the deaf client holds its connection")
        client.close()
    assert front.front.table.dropped["answer not read"] == 2


def test_a_client_that_reads_and_does_not_close_costs_nothing(running: Any) -> None:
    front = running()
    with front.open(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as client:
        until(lambda: empty(front), "the server waits for the client to close")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_the_oldest_unfinished_goes_when_there_are_too_many(running: Any) -> None:
    front = running(connections=20, header_s=30.0, body_s=30.0, idle_s=30.0)
    kept = front.open(REQUEST)
    until(lambda: len(front.front.table.idle) == 1, "the first client was not answered")
    drips = [front.open(b"GET / HTTP/1.1\r\nX-Drip: ") for _ in range(50)]
    until(lambda: front.front.table.dropped["too many connections"] == 31, "31 of 50 are too many beside one")
    assert front.get().startswith(b"HTTP/1.1 200 ")
    assert all(ended(client) for client in drips[:31])
    assert not any(ended(client) for client in drips[33:])
    kept.settimeout(60)
    kept.sendall(REQUEST)  # who has had an answer stays, however old
    answers = b""
    while answers.count(b"HTTP/1.1 200 ") < 2:
        part = kept.recv(65536)
        assert part, f"closed after {answers!r}"
        answers += part
    for client in (kept, *drips):
        client.close()
    until(lambda: empty(front), "connections are left")


def test_stalled_bodies_give_way_to_those_that_arrive(running: Any) -> None:
    front = running(held_bytes=400_000, body_s=30.0)
    stalled = [front.open(STALLED + b"x" * 60_000) for _ in range(12)]
    until(lambda: front.front.table.dropped["too many bytes"] >= 5, "12 x 60,000 bytes fit into 400,000")
    assert front.front.table.dropped["too many bytes"] <= 8, "more were dropped than had to be"
    whole = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 90000\r\n\r\n" + b"y" * 90_000
    for _ in range(5):
        assert front.ask(whole).endswith(b"y" * 90_000)
        assert front.front.table.held_bytes <= 400_000
    for client in stalled:
        client.close()
    until(lambda: empty(front), "bytes are still held")


def test_unfinished_headers_count_as_well_and_give_way(running: Any) -> None:
    front = running(held_bytes=400_000, header_s=30.0)
    clients = [front.open(b"GET / HTTP/1.1\r\nHost: x\r\nX-Drip: " + b"x" * 30_000) for _ in range(50)]
    until(lambda: front.front.table.dropped["too many bytes"] >= 37, "50 x 30,000 bytes fit into 400,000")
    assert front.front.table.held_bytes <= 400_000
    assert front.get().startswith(b"HTTP/1.1 200 ")
    for client in clients:
        client.close()
    until(lambda: empty(front), "bytes are still held")


def test_endless_trailers_end_with_their_connection(running: Any) -> None:
    front = running(body_s=30.0)
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    for _ in range(4):
        with front.open(head) as client, contextlib.suppress(ConnectionError):
            client.sendall(b"a:\r\n" * 2_000_000)
            assert client.recv(65536).startswith(b"HTTP/1.1 431 ")
    assert front.get().startswith(b"HTTP/1.1 200 ")
    until(lambda: empty(front), "connections are left")


def test_bodies_that_are_being_worked_on_are_kept_and_others_asked_to_wait(running: Any) -> None:
    front = running(held_bytes=200_000)
    body = b"Content-Length: 90000\r\n\r\n" + b"y" * 90_000
    head = b"POST /slow/held HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    working = [front.open(head + body) for _ in range(2)]
    until(lambda: len(front.front.table.working) == 2, "two are worked on")
    refused = front.ask(b"POST / HTTP/1.1\r\nHost: x\r\n" + body)
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 5\r\n" in refused
    front.held.set()
    for client in working:
        client.settimeout(60)
        assert read_all(client).endswith(b"y" * 90_000)
        client.close()


def test_a_stop_lets_answers_out_and_nothing_in(running: Any) -> None:
    front = running(header_s=30.0)
    working = front.open(b"GET /slow/held HTTP/1.1\r\nHost: x\r\n\r\n")
    until(lambda: len(front.front.table.working) == 1, "it is worked on")
    dripping, idle = front.open(b"GET / HT"), front.open(REQUEST)
    until(lambda: len(front.front.table) == 3, "all are connected")
    front.stop()
    until(lambda: ended(dripping) and ended(idle), "the others are let go")
    front.held.set()
    working.settimeout(60)
    answer = working.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close\r\n" in answer
    assert working.recv(1) == b""
    for client in (working, dripping, idle):
        client.close()


def test_what_was_dropped_is_recorded(running: Any) -> None:
    front = running(header_s=0.2)
    client = front.open(b"GET")
    until(lambda: ended(client), "the drip is still connected")
    client.close()
    front.stop()
    until(lambda: front.recorded == {"request too slow": 1}, "nothing was recorded")
