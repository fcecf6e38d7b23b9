"""Batches that come to the query side reach the writer as they were, and its answers come back."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import make
from tests.deploy.misbehaving import says, serving
from werkzeug.serving import make_server

from jobsight_server.ingest.app import create_writer
from jobsight_server.serve.app import create_app
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.event_counts import read_event_counts

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BATCH = Path(__file__).parents[2] / "golden" / "batch.json"
URL = "/api/v1/samples"


@pytest.fixture
def relayed(served: Any, serve: Any, database_url: str) -> Iterator[Any]:
    """The served site with a real writer behind it."""
    writing = open_engine(database_url)
    writer = create_writer(serve(max_body_bytes=5000), writing, served.clock)
    server = make_server("127.0.0.1", 0, writer, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    site = served.app.extensions["jobsight"]
    settings = serve(max_body_bytes=5000, ingest_listen=f"127.0.0.1:{server.server_port}")
    served.app = create_app(settings, site.read_engine, served.engine, served.clock)
    served.clock.now = 1_700_000_100.0
    yield served
    server.shutdown()
    thread.join()
    server.server_close()
    writer.extensions["committer"].close()
    writing.dispose()


def counts(relayed: Any) -> dict[tuple[str, str], int]:
    """The counts; the writer counts a refusal with, or before, the next batch that it stores."""
    sequence = relayed.clock.now = relayed.clock.now + 1
    stored = relayed.client("agent").post(URL, data=make.batch(sequence=int(sequence)))
    assert stored.status_code == 200, stored.text
    with relayed.engine.connect() as connection:
        return read_event_counts(connection)


def test_a_batch_is_stored_and_then_known(relayed: Any) -> None:
    client = relayed.client("agent")
    packed = gzip.compress(make.batch())
    first = client.post(URL, data=packed, headers={"Content-Encoding": "gzip"})
    assert (first.status_code, first.json["status"]) == (200, "stored"), first.text
    assert first.json["samples"] == 4
    assert client.post(URL, data=make.batch()).json["status"] == "duplicate"


def test_what_the_writer_refuses_comes_back_with_its_reason(relayed: Any) -> None:
    client = relayed.client("agent")
    assert client.post(URL, data=b"{").status_code == 422
    assert "cpus" in client.post(URL, data=make.batch(cpus="many")).json["error"]
    assert client.post(URL, data=b"x", headers={"Content-Encoding": "gzip"}).status_code == 400


def test_too_large_a_body_is_refused_and_counted_by_the_writer(relayed: Any) -> None:
    before = counts(relayed)
    answer = relayed.client("agent").post(URL, data=b"x" * 20_000)
    assert answer.status_code == 413
    assert "at most 5000" in answer.json["error"]
    after = counts(relayed)
    assert after["batches_rejected", "too large"] == 1
    assert after["batches_received", ""] == before["batches_received", ""] + 2  # and the batch that reads


def test_a_wrong_token_is_refused_and_counted_by_the_writer(relayed: Any) -> None:
    for client, status in ((relayed.client("scheduler"), 403), (relayed.client(), 401)):
        assert client.post(URL, data=make.batch()).status_code == status
    assert counts(relayed)["batches_rejected", "not authorised"] == 2
    assert relayed.client().post(URL).headers["WWW-Authenticate"].startswith("Bearer")


def test_ready_sees_the_writer(relayed: Any) -> None:
    answer = relayed.client().get("/ready")
    assert (answer.status_code, answer.json) == (200, {"status": "ok", "reason": None})


@pytest.mark.parametrize("answer", [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_a_writer_that_breaks_off_is_answered_503(served: Any, serve: Any, answer: bytes) -> None:
    site = served.app.extensions["jobsight"]
    with serving(says(answer)) as port:
        settings = serve(ingest_listen=f"127.0.0.1:{port}")
        served.app = create_app(settings, site.read_engine, served.engine, served.clock)
        reply = served.client("agent").post(URL, data=make.batch())
    assert reply.status_code == 503
    assert reply.headers["Retry-After"] == "5"


def test_a_writer_that_is_away_is_answered_503(served: Any) -> None:
    reply = served.client("agent").post(URL, data=make.batch())
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "5")
    assert "send it again" in reply.json["error"]
    ready = served.client().get("/ready")
    assert (ready.status_code, ready.json["reason"]) == (503, "the writer does not answer")
