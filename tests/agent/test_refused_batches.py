"""Batches that a server does not take: which are tried again, which kept aside, and how many."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.collector import Answer, collecting, wait_for

from jobsight_agent.push import Pusher, Suspicion
from jobsight_agent.send import Target
from jobsight_agent.spool import Aside, Spool

Reply = tuple[int, dict[str, str]]
STORED: Reply = (200, {})


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", 10**6, 10**9, clock=lambda: 5000.0)
    yield made
    made.release()


@contextlib.contextmanager
def pushing(spool: Spool, port: int) -> Iterator[Pusher]:
    token = spool.directory.parent / "token"
    token.write_text("secret")
    target = Target(f"http://127.0.0.1:{port}", token, backoff_s=0.005, backoff_most_s=0.005)
    pusher = Pusher(spool, target, threading.Lock(), random.Random(1))
    pusher.start()
    try:
        yield pusher
    finally:
        pusher.finish(5)


@contextlib.contextmanager
def facing(spool: Spool, reply: Callable[[bytes, int], Reply]) -> Iterator[tuple[Pusher, list[bytes]]]:
    """A pusher and the batches that its server received; waits for all at the end."""
    requests: list[bytes] = []

    def take(_request: object, batch: bytes) -> Answer:
        status, headers = reply(batch, len(requests))
        requests.append(batch)
        return status, {"status": "stored"} if status == 200 else {"error": "trouble"}, headers

    with collecting(take) as port, pushing(spool, port) as pusher:
        yield pusher, requests


def body(number: int) -> bytes:
    return b"\x1f\x8b batch %d" % number


@pytest.mark.parametrize("status", [500, 599])
def test_a_batch_that_alone_fails_is_put_aside_and_the_agent_goes_on(spool: Spool, status: int) -> None:
    poison = body(1)
    spool.close_batches([body(0), poison, body(2), body(3)])
    with facing(spool, lambda batch, _: (status, {}) if batch == poison else STORED) as (pusher, requests):
        wait_for(lambda: spool.waiting == 0)
    assert (pusher.accepted, pusher.refused, spool.refused, spool.dropped) == (3, 1, 1, 0)
    assert pusher.last_error is None
    assert pusher.last_refusal == f"{status} trouble, 20 times, while other batches were accepted"
    assert requests.count(poison) == Suspicion.STRIKES + 1
    # Twenty tries before another batch is; then once more, and it is aside before the next is sent.
    assert requests[:1] + requests[21:] == [body(0), body(2), poison, body(3)]
    (file,) = (spool.directory / "refused").glob("*.gz")
    assert file.read_bytes() == poison


def test_the_last_batch_waits_until_there_is_another_to_compare_with(spool: Spool) -> None:
    poison = body(0)
    spool.close_batches([poison])
    with facing(spool, lambda batch, _: (500, {}) if batch == poison else STORED) as (pusher, requests):
        wait_for(lambda: len(requests) > 40)
        assert (spool.waiting, spool.refused) == (1, 0)
        spool.close_batches([body(1)])
        wait_for(lambda: spool.refused == 1)
    assert pusher.accepted == 1


OUTAGES: dict[str, Reply] = {
    "500": (500, {}),
    "502 of a proxy": (502, {}),
    "503": (503, {}),
    "503 with Retry-After": (503, {"Retry-After": "0"}),
    "500 with Retry-After": (500, {"Retry-After": "0"}),
    "429": (429, {}),
    "403": (403, {}),
}


# Of those that end between two batches, the suspect is tried once more after another was taken.
@pytest.mark.parametrize(
    ("outage", "requests"), [*((reply, 70) for reply in OUTAGES.values()), *(((500, {}), n) for n in range(20, 26))]
)
def test_an_outage_costs_no_batch(spool: Spool, outage: Reply, requests: int) -> None:
    spool.close_batches([body(0), body(1), body(2)])
    with facing(spool, lambda _, count: outage if count < requests else STORED) as (pusher, sent):
        wait_for(lambda: spool.waiting == 0)
    assert (pusher.accepted, pusher.refused, spool.refused) == (3, 0, 0)
    assert len(sent) == requests + 3


def test_two_bad_batches_in_a_row_both_go(spool: Spool) -> None:
    bad = {body(0), body(1)}
    spool.close_batches([body(0), body(1), body(2), body(3), body(4)])
    with facing(spool, lambda batch, _: (500, {}) if batch in bad else STORED) as (pusher, _):
        # The one after the suspect fails too: only a third batch could show that the server is well.
        wait_for(lambda: spool.refused == 2)
        wait_for(lambda: spool.waiting == 0)
    assert pusher.accepted == 3


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_a_batch_refused_for_its_content_is_kept_at_once(spool: Spool, status: int) -> None:
    spool.close_batches([body(0), body(1)])
    with facing(spool, lambda batch, _: (status, {}) if batch == body(0) else STORED) as (_, requests):
        wait_for(lambda: spool.waiting == 0)
    assert (spool.refused, len(requests)) == (1, 2)
    number = int(next((spool.directory / "refused").glob("*.gz")).stem)
    assert (spool.directory / "refused" / f"{number}.txt").read_text() == f"{status} trouble\n"


def test_those_aside_are_bounded_and_the_drop_is_counted_for_ever(tmp_path: Path) -> None:
    size = len(body(0))
    spool = Spool(tmp_path, 5 * 3 * size, 10**9, clock=lambda: 5000.0)  # a fifth: three batches
    first = spool.next_sequence
    spool.close_batches([body(number) for number in range(5)])
    for number in range(5):
        spool.set_aside(first + number, "422")
    assert (spool.refused, spool.dropped, spool.waiting) == (3, 2, 0)
    assert sorted(file.name for file in (tmp_path / "refused").iterdir()) == sorted(
        f"{first + number}.{kind}" for number in (2, 3, 4) for kind in ("gz", "txt")
    )
    spool.release()
    again = Spool(tmp_path, 10**6, 10**9, clock=lambda: 5000.0)
    assert (again.refused, again.dropped) == (3, 2)
    assert again.resend() == 3
    assert (again.refused, again.waiting) == (0, 3)
    assert again.oldest() == (first + 2, body(2))
    again.release()


def test_a_batch_sent_again_is_not_too_old_to_wait(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 10**6, 3600.0, clock=time.time)
    number = spool.next_sequence
    spool.close_batches([body(0)])
    os.utime(tmp_path / "batches" / f"{number}.gz", (1e9, 1e9))
    spool.set_aside(number, "422")
    assert spool.resend() == 1
    spool.close_batches([body(1)])
    assert (spool.waiting, spool.dropped) == (2, 0)
    spool.release()


def test_files_of_others_among_those_aside_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.gz", "5.gz.bak", "x.txt"):
        (tmp_path / name).write_text("mine")
    aside = Aside(tmp_path, 1)
    assert len(aside) == 0
    assert aside.give_back(tmp_path) == {}
    assert len(list(tmp_path.iterdir())) == 3
