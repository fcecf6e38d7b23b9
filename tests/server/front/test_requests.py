"""Valid and invalid requests at the front."""

from __future__ import annotations

import re
import socket
import tempfile
import time
from functools import partial
from typing import Any

import pytest
from tests.make import not_none
from tests.server.front.conftest import LIMITS, Running, read_all

from jobsight_server.front.intake import Intake

CLOSE = b"Connection: close\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def seen(answer: bytes) -> str:
    """The request as the application saw it."""
    match = not_none(re.search(rb"x-seen: (.*)\r\n", answer), answer[:500])
    return match[1].decode()


def read_answer(client: socket.socket) -> bytes:
    """One answer of a connection that stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    length = not_none(re.search(rb"content-length: (\d+)", data), data)
    whole = data.index(b"\r\n\r\n") + 4 + int(length[1])
    while len(data) < whole:
        data += client.recv(65536)
    assert len(data) == whole, "more came than one answer"
    return data


def test_a_request_reaches_the_application_as_it_was(running: Any) -> None:
    front = running()
    answer = front.ask(b"POST /a%20b/c?x=%20&y HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"Content-Length: 5\r\n\r\nhello")
    assert status(answer) == 200
    assert answer.endswith(b"\r\n\r\nhello")
    expected = {"REQUEST_METHOD": "POST", "PATH_INFO": "/a b/c", "QUERY_STRING": "x=%20&y", "CONTENT_LENGTH": "5"}
    assert seen(answer) == repr(expected)
    absolute = front.ask(b"GET http://x/p?q=1 HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n")
    assert "'/p'" in seen(absolute)
    assert "'q=1'" in seen(absolute)


def test_cookies_are_joined_and_underscores_do_not_pass_for_hyphens(running: Any) -> None:
    sent = b"GET / HTTP/1.1\r\nHost: x\r\nCookie: a=1\r\nCookie: b=2\r\nCoo_kie: c\r\n" + CLOSE + b"\r\n"
    assert b"x-cookie: a=1; b=2\r\n" in running().ask(sent)


def test_a_body_in_chunks_is_put_together(running: Any) -> None:
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"
    answer = running().ask(sent + b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nhello world")
    assert "'CONTENT_LENGTH': '11'" in seen(answer)


def test_trailers_are_no_headers(running: Any) -> None:
    answer = running().ask(
        CHUNKED.replace(b"\r\n\r\n", b"\r\n" + CLOSE + b"\r\n") + b"2\r\nok\r\n0\r\nCookie: a=1\r\n\r\n"
    )
    assert status(answer) == 200
    assert b"x-cookie: \r\n" in answer
    assert answer.endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_who_offers_http_2_gets_its_answer_in_http_1(running: Any, framing: bytes, pieces: int) -> None:
    """As `curl --http2` and Java's HttpClient do, with a body."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    sent = b"POST /a HTTP/1.1\r\nHost: x\r\n" + offer + framing
    with running().open() as client:
        for begin in range(0, len(sent), -(-len(sent) // pieces)):
            client.sendall(sent[begin : begin - (-len(sent) // pieces)])
            time.sleep(0.02)
        assert read_answer(client).endswith(b"\r\n\r\nhello")
        client.sendall(
            b"GET /b HTTP/1.1\r\nHost: x\r\n" + offer + b"\r\nGET /c HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n"
        )
        assert re.findall(rb"'PATH_INFO': '([^']+)'", read_all(client)) == [b"/b", b"/c"]


def test_a_connection_is_kept_and_requests_may_be_sent_ahead(running: Any) -> None:
    front = running()
    with front.open(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        assert "'/1'" in seen(read_answer(client))
        client.sendall(b"GET /slow/2 HTTP/1.1\r\nHost: x\r\n\r\nGET /3 HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n")
        rest = read_all(client)
    assert re.findall(rb"'PATH_INFO': '([^']+)'", rest) == [b"/slow/2", b"/3"]
    assert b"connection: close\r\n" in front.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")


def test_100_continue_is_said_before_the_body(running: Any) -> None:
    with running().open(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n") as client:
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ok")
        assert read_answer(client).endswith(b"\r\n\r\nok")


def test_head_has_the_length_and_no_body(running: Any) -> None:
    answer = running().ask(b"HEAD / HTTP/1.1\r\nHost: x\r\n" + CLOSE + b"\r\n")
    assert b"content-length: 5\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 100 + b"\r\n", 431),
        (CHUNKED + b"0\r\n" + b"a:\r\n" * 20_000, 431),
        (CHUNKED + b"1;" + b"x" * 100_000 + b"\r\na\r\n0\r\n\r\n", 431),
        (CHUNKED + b"1\r\na\r\n" * 40_000 + b"0\r\n\r\n", 431),
        (b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET host:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 40_000, 431),
        (b"GET /" + b"x" * 40_000, 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20, 400),
        (b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 500),
    ],
)
def test_what_cannot_be_served_is_answered_and_ends_the_connection(running: Any, sent: bytes, code: int) -> None:
    front = running()
    answer = front.ask(sent)
    last = answer[answer.rindex(b"HTTP/1.1 ") :]
    assert status(last) == code
    assert b'{"error": ' in last
    assert status(front.get()) == 200


def test_too_long_a_body_is_refused_without_being_read(running: Any) -> None:
    front = running()
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100001\r\n\r\n"
    refused = front.ask(head % b"/")
    assert status(refused) == 413
    assert b"more than 100000 bytes" in refused
    chunk = b"%x\r\n" % 100_001 + b"x" * 100_001 + b"\r\n0\r\n\r\n"
    assert status(front.ask(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)) == 413


def test_a_half_closed_client_gets_its_answer(running: Any) -> None:
    with running().open(b"GET /slow/1 HTTP/1.1\r\nHost: x\r\n\r\n") as client:
        client.shutdown(socket.SHUT_WR)
        assert status(client.recv(65536)) == 200
        assert client.recv(1) == b""


def test_a_full_disk_is_not_the_clients_fault(running: Any, monkeypatch: Any) -> None:
    """Agents drop a batch after a 400; a body that cannot be kept must be answered 503."""
    front = running()
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent/for/this/test")
    answer = front.ask(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n" + b"x" * 90_000)
    assert status(answer) == 503
    assert b"retry-after: 5\r\n" in answer
    assert status(front.get()) == 200


def test_a_fault_while_a_batch_is_taken_is_answered_and_costs_its_connection_only() -> None:
    def take(*_: object) -> bool:
        raise ZeroDivisionError("broken on purpose")

    with Running(LIMITS, connection=partial(Intake, take, "/batches")) as front:
        answered = front.ask(b"POST /batches HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        assert answered.startswith(b"HTTP/1.1 503 ")
        assert b"internal error" in answered
        assert front.get().startswith(b"HTTP/1.1 200 ")
