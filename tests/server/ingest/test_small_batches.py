"""Small batches are taken without a thread, and the memory of all together is limited."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests import make

from jobsight_server.ingest.waiting import MemoryBudget
from jobsight_server.ingest.wire import UnavailableError

Writer = Any  # conftest.Writer


def in_chunks(writer: Writer, body: bytes, encoding: str = "") -> tuple[int, dict[str, Any]]:
    """Send ``body`` with a length that is not declared."""
    connection = http.client.HTTPConnection("127.0.0.1", writer.port, timeout=60)
    headers = {"Authorization": f"Bearer {writer.agent_token}", "Content-Encoding": encoding}
    connection.request("POST", "/api/v1/samples", iter([body[:10], body[10:]]), headers, encode_chunked=True)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


@pytest.fixture
def busy(writer: Writer) -> Iterator[threading.Event]:
    """Keep all threads busy until the event is set."""
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


def test_only_large_batches_and_look_ups_wait_for_a_thread(writer: Writer, busy: threading.Event) -> None:
    golden = gzip.compress(b" " * 200_000 + make.batch(sequence=99))  # unpacked, it is long
    waiting = [golden, make.batch(cluster="gamma")]
    answers: list[int] = []
    senders = [threading.Thread(target=lambda body=body: answers.append(post(body)[0])) for body in waiting]

    def post(body: bytes) -> tuple[int, dict[str, Any]]:
        answer: tuple[int, dict[str, Any]] = writer.post(body, Content_Encoding="gzip" if body is golden else "")
        return answer

    for sender in senders:
        sender.start()
    for wrong, reason in ((make.batch(cpus=8), "already used"), (make.batch(cpus=0), ">= 1"), (b"{", "truncated")):
        status, answer = writer.post(wrong)
        assert status == 422
        assert reason in answer["error"]
    assert not answers
    busy.set()
    for sender in senders:
        sender.join()
    assert sorted(answers) == [200, 403]
    sums = writer.balance()
    assert (sums["received"], sums["stored"], sums["quarantined"]) == (6, 2, 3)


def test_a_batch_without_a_declared_length_is_stored(writer: Writer) -> None:
    assert in_chunks(writer, make.batch()) == (200, {"status": "stored", "samples": 4})
    assert in_chunks(writer, b" " * 100_001)[0] == 413


def test_an_answer_comes_when_the_batch_is_stored_however_late(writer: Writer) -> None:
    writer.post(make.batch())
    with writer.engine.begin() as connection:  # the writer's transaction waits for this one
        connection.exec_driver_sql("UPDATE nodes SET missing = missing")
        answers: list[tuple[int, dict[str, Any]]] = []
        sender = threading.Thread(target=lambda: answers.append(writer.post(make.batch(sequence=99))))
        sender.start()
        sender.join(0.3)
        assert not answers
    sender.join()
    assert answers == [(200, {"status": "stored", "samples": 4})]


def test_memory_is_granted_in_order_of_request() -> None:
    async def wait() -> list[str]:
        budget, granted = MemoryBudget(100, patience_s=0.05), []

        async def use(name: str, length: int, pause_s: float) -> None:
            try:
                taken = await budget.take(length)
                granted.append(name)
                await asyncio.sleep(pause_s)
                budget.give_back(taken)
            except UnavailableError:
                granted.append(f"no {name}")

        await asyncio.gather(use("first", 6, 0.02), use("large", 99, 0.2), use("small", 1, 0.0))
        await use("next", 10, 0.0)
        return granted

    assert asyncio.run(wait()) == ["first", "large", "no small", "next"]
