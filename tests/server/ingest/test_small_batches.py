"""Small batches are taken without a thread; the answers are those of the application, which takes all others."""

from __future__ import annotations

import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests import make

from jobsight_server.serve import writer as writing

Writer = Any  # conftest.Writer


def in_chunks(writer: Writer, body: bytes, encoding: str = "") -> tuple[int, dict[str, Any]]:
    """Send ``body`` with a length that is not declared: only the application takes that."""
    connection = http.client.HTTPConnection("127.0.0.1", writer.port, timeout=60)
    headers = {"Authorization": f"Bearer {writer.agent_token}", "Content-Encoding": encoding}
    connection.request("POST", "/api/v1/samples", iter([body[:10], body[10:]]), headers, encode_chunked=True)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


@pytest.fixture
def busy(writer: Writer) -> Iterator[threading.Event]:
    """Keep all threads of the application busy until the event is set."""
    assert writer.post(make.batch())[0] == 200  # its token and cluster are known now
    free = threading.Event()
    for _ in range(8):
        writer.lane.submit(free.wait)
    yield free
    free.set()


def test_small_batches_are_stored_while_every_thread_is_busy(writer: Writer, busy: threading.Event) -> None:
    packed = gzip.compress(make.batch(sequence=make.GOLDEN["sequence"] + 1))
    assert writer.post(packed, Content_Encoding="GZIP ") == (200, {"status": "stored", "samples": 4})
    assert writer.post(packed, Content_Encoding="gzip") == (200, {"status": "duplicate"})
    assert writer.rows("SELECT count(*) FROM readings") == [(2,)]


def test_what_is_wrong_waits_for_a_thread(writer: Writer, busy: threading.Event) -> None:
    answers: list[tuple[int, dict[str, Any]]] = []
    wrong = [make.batch(cpus=8), make.batch(cpus=0), make.batch(cluster="gamma"), b"{", gzip.compress(b" " * 200_000)]
    senders = [threading.Thread(target=lambda body=body: answers.append(writer.post(body))) for body in wrong]
    for sender in senders:
        sender.start()
    senders[0].join(0.3)
    assert not answers
    busy.set()
    for sender in senders:
        sender.join()
    assert sorted(status for status, _ in answers) == [403, 422, 422, 422, 422]
    sums = writer.balance()
    assert (sums["received"], sums["stored"], sums["quarantined"]) == (6, 1, 4)


@pytest.mark.parametrize("changes", [{}, {"sequence": 9}, {"cpus": 8}, {"node": "n2"}, {"boot_id": "b2"}])
def test_both_ways_give_the_same_answers(writer: Writer, changes: dict[str, Any]) -> None:
    writer.post(make.batch())
    declared = writer.post(make.batch(**changes))
    assert in_chunks(writer, make.batch(**changes)) in (declared, (200, {"status": "duplicate"}))
    other = make.batch(**changes, cpus=16) if "cpus" not in changes else make.batch(cpus=16)
    assert in_chunks(writer, other) == writer.post(other)


def test_a_batch_that_is_not_stored_soon_waits_in_a_thread(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_PATIENCE_S", 0.05)
    writer.post(make.batch())
    with writer.engine.begin() as connection:  # the writer's transaction waits for this one
        connection.exec_driver_sql("UPDATE nodes SET missing = missing")
        answers: list[tuple[int, dict[str, Any]]] = []
        sender = threading.Thread(target=lambda: answers.append(writer.post(make.batch(sequence=99))))
        sender.start()
        sender.join(0.5)
        assert not answers
    sender.join()
    assert answers == [(200, {"status": "stored", "samples": 4})]
