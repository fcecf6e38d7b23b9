"""`POST /api/v1/samples` over a real HTTP server: answers, counts and stored data for every kind of input."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from tests import make
from tests.server.ingest.conftest import serving
from tests.walk import entering

Writer = Any  # conftest.Writer
NOW = 1_700_000_100.0


def refusals(writer: Writer) -> list[str]:
    """The reasons in quarantine."""
    writer.committer.flush()
    return [reason for (reason,) in writer.rows("SELECT reason FROM quarantine ORDER BY id")]


def test_a_stored_batch_enters_few_modules(sqlite_engine: Engine) -> None:
    with entering() as entered, serving(sqlite_engine) as writer:
        assert writer.post(make.batch())[0] == 200
        walks = []
        for number in range(1, 300):  # of many on a busy machine, as the writer's chores may come between
            entered.clear()
            assert writer.post(make.batch(sequence=make.GOLDEN["sequence"] + number))[0] == 200
            walks.append(list(entered))
            if len(walks[-1]) <= 19:
                break
        walk = min(walks, key=len)
    assert len(walk) <= 19, "\n".join(walk)
    assert "jobsight_server.front.wsgi" not in walk


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason"),
    [
        (b"\x00\xff\x17 rubbish", {}, 422, "malformed|invalid|truncated"),
        (b"\x00\xff rubbish", {"Content_Encoding": "gzip"}, 400, "damaged gzip"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-6], {"Content_Encoding": "gzip"}, 400, "truncated gzip stream"),
        (gzip.compress(make.batch()) + b"more", {"Content_Encoding": "gzip"}, 400, "4 bytes follow"),
        (gzip.compress(make.batch())[:-8] + bytes(8), {"Content_Encoding": "gzip"}, 400, "damaged gzip"),
        (gzip.compress(b"0" * 2_000_000), {"Content_Encoding": "gzip"}, 413, "unpacks to more than 1000000"),
        (b"0" * 100_001, {}, 413, "100001 bytes; at most 100000"),
        (b"{}", {"Content_Encoding": "zstd"}, 400, "not supported"),
        (make.batch(cpus=None), {}, 422, "cpus"),
        (make.batch().replace(b"118.25", b"NaN"), {}, 422, "invalid"),
        (make.batch(bytes_in=[[-1, 0, 0, 0], [0, 0, 0, 0]]), {}, 422, ">= 0"),
        (make.batch(time=[NOW, NOW + 1, NOW + 2, NOW + 86400]), {}, 422, "ahead of the server's clock"),
        (make.batch(time=[1.0, 2.0, 3.0, 4.0]), {}, 422, "older than the retention of 90 days"),
        (b"", {}, 422, "truncated"),
    ],
)
def test_what_is_wrong_is_answered_counted_and_shown(
    writer: Writer, body: bytes, headers: dict[str, str], status: int, reason: str
) -> None:
    answered, answer = writer.post(body, **headers)
    assert answered == status
    assert re.search(reason, answer["error"])
    if status != 413:
        assert refusals(writer) == [answer["error"]]
    assert writer.post(make.batch())[0] == 200  # nothing else is lost
    sums = writer.balance()
    assert (sums["stored"], sums["quarantined"]) == (1, 0 if status == 413 else 1)


def test_only_agents_may_send(writer: Writer) -> None:
    assert writer.post(make.batch(), token="wrong")[0] == 401
    assert writer.post(make.batch(), token="")[0] == 401
    assert writer.post(make.batch(), token=writer.scheduler_token)[0] == 403
    assert writer.balance()["rejected"] == 3


@pytest.mark.storage
def test_hostile_names_are_names(writer: Writer) -> None:
    for number, name in enumerate(["<script>alert(1)</script>", "'; DROP TABLE samples; --", "ü" * 255, "n/../../x"]):
        assert writer.post(make.batch(node=name, sequence=number))[0] == 200
    assert writer.post(make.batch(node="x" * 10_000))[0] == 422
    assert make.rows(writer.engine, "SELECT count(*) FROM nodes") == [(4,)]


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.binary(max_size=300).map(lambda end: b"\x1f\x8b" + end),
            st.integers(0, 3).map(lambda n: make.batch(sequence=n)),
            st.integers(0, 3).map(lambda n: gzip.compress(make.batch(sequence=n))),
            st.sampled_from([make.batch(time=[5.0, 6.0]), make.batch(format=3), b"[]", b"null", b'{"format": 1}']),
        ),
        max_size=12,
    )
)
@settings(deadline=None, max_examples=25)
def test_whatever_comes_is_accounted_for(writer: Writer, bodies: list[bytes]) -> None:
    before = writer.balance()["received"]
    for body in bodies:
        encoding = "gzip" if body[:2] == b"\x1f\x8b" else ""
        status, _ = writer.post(body, Content_Encoding=encoding)
        assert status in {200, 400, 422}
    assert writer.balance()["received"] == before + len(bodies)
