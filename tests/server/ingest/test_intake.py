"""Ordinary batches are answered in the connection itself: in order, beside every other kind of request."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Engine
from tests import make
from tests.server.ingest.conftest import serving

Writer = Any  # conftest.Writer
FIRST = make.GOLDEN["sequence"]


def request(writer: Writer, body: bytes, *fields: str, token: str = "", target: str = "/api/v1/samples") -> bytes:
    head = [f"POST {target} HTTP/1.1", "Host: h", f"Authorization: Bearer {token or writer.agent_token}", *fields]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def in_chunks(writer: Writer, body: bytes) -> bytes:
    head = ["POST /api/v1/samples HTTP/1.1", "Host: h", f"Authorization: Bearer {writer.agent_token}"]
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return "\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode() + chunk


def answers(writer: Writer, sent: list[bytes], half_closed: bool = False) -> list[tuple[int, dict[str, Any]]]:
    """Send the pieces on one connection, and return what is answered until it closes."""
    with socket.create_connection(("127.0.0.1", writer.port), timeout=60) as client:
        for piece in sent:
            client.sendall(piece)
        if half_closed:
            client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append((int(head.split()[1]), json.loads(rest[:length])))
        received = rest[length:]
    return found


def kinds(writer: Writer) -> list[tuple[bytes, int, str]]:
    """Requests with their status and a part of the answer; the last one ends the connection."""
    health = b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n"
    return [
        (request(writer, make.batch(sequence=FIRST + 1)), 200, "stored"),
        (request(writer, make.batch(sequence=FIRST + 1, cpus=63)), 422, "already used with other content"),
        (request(writer, make.batch(sequence=FIRST + 1)), 200, "duplicate"),
        (health, 200, "ok"),
        (in_chunks(writer, make.batch(sequence=FIRST + 2)), 200, "stored"),
        (request(writer, make.batch(cluster="gamma")), 403, "not declared"),
        (request(writer, b"{"), 422, "truncated"),
        (request(writer, make.batch(sequence=FIRST + 4), target="/api/v1/sampels"), 404, "Not Found"),
        (request(writer, make.batch(sequence=FIRST + 5), token="wrong"), 401, "token"),
    ]


@pytest.mark.parametrize("seed", range(6))
def test_pipelined_requests_of_all_kinds_are_answered_in_order(writer: Writer, seed: int) -> None:
    rng = random.Random(seed)
    assert writer.post(make.batch())[0] == 200  # its token and cluster are known now
    first, *others = kinds(writer)
    chosen = [first, *rng.choices([each for each in others[:-1] if each[2] != "stored"], k=8), others[-1]]
    sent = b"".join(data for data, _, _ in chosen)
    cuts = sorted(rng.sample(range(1, len(sent)), seed))  # pieces that begin and end anywhere
    pieces = [sent[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    found = answers(writer, pieces, half_closed=seed == 0)
    assert [status for status, _ in found] == [status for _, status, _ in chosen]
    assert all(part in json.dumps(answer) for (_, answer), (_, _, part) in zip(found, chosen, strict=True))
    writer.balance()


def test_a_server_that_stops_answers_the_batches_it_has(sqlite_engine: Engine) -> None:
    with serving(sqlite_engine) as writer:
        assert writer.post(make.batch())[0] == 200
        sent = [request(writer, make.batch(sequence=FIRST + number)) for number in range(1, 13)]
        found: list[Any] = []
        client = threading.Thread(target=lambda: found.extend(answers(writer, [b"".join(sent)])))
        with sqlite_engine.begin():  # nothing can be written for a while
            client.start()
            time.sleep(0.5)
            writer.stop()
            time.sleep(0.5)
        client.join()
        assert [status for status, _ in found] == [200] * 12
        assert writer.rows("SELECT count(*) FROM readings") == [(13,)]
