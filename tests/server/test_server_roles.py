"""`jobsight serve --only`: what it refuses, and what a writer of some clusters refuses and stores."""

from __future__ import annotations

import asyncio
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, insert, text
from tests import make

from jobsight_server.auth.tokens import create_token
from jobsight_server.ingest.reception import IngestReply, Reception
from jobsight_server.serve.app import create_app
from jobsight_server.settings.load import load_settings
from jobsight_server.storage.lock import take_over
from jobsight_server.storage.schema import quarantine
from site_run import JOBSIGHT, wait_until

NOW = 1_700_000_100.0
URL = "/api/v1/samples"
SETTINGS = load_settings(flags={"database": "unused", "clusters": "alpha beta"})


@pytest.mark.parametrize(
    ("only", "message"),
    [
        (["quer"], "choose query, background, or writer:CLUSTER"),
        (["query:alpha"], "choose query, background, or writer:CLUSTER"),
        (["writer:alhpa"], "cluster 'alhpa' is not declared; declared: alpha, beta"),
        (["writer:alpha", "writer:beta"], "name all of its clusters at once"),
        (["query"], "several servers need PostgreSQL"),
    ],
)
def test_what_cannot_be_started_is_refused_in_a_line(tmp_path: Path, only: list[str], message: str) -> None:
    flags = [part for role in only for part in ("--only", role)]
    flags += ["--clusters", "alpha beta", "--listen", "127.0.0.1:0", "--ingest-listen", "127.0.0.1:00"]
    command = [*JOBSIGHT, "serve", "--database", f"sqlite:///{tmp_path / 'x.db'}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert message in done.stderr


@pytest.mark.storage
def test_a_writer_stores_its_own_clusters_only(engine: Engine) -> None:
    with engine.begin() as connection:
        token = create_token(connection, "agent", "", 0.0, None, None)[1]
        # Kept by a release that could not read it, so without a cluster.
        body = make.batch(cluster="beta")
        kept = {"received_at": NOW, "reason": "x", "bytes": len(body), "body": body, "retry": True}
        connection.execute(insert(quarantine).values(kept))

    def writer(name: str) -> Reception:
        fence = take_over(engine, f"writer of {name}", lambda: None)
        return Reception(SETTINGS, engine, ThreadPoolExecutor(1), lambda: NOW, [fence], frozenset({name}))

    writers = [writer("alpha")]

    def post(cluster: str) -> IngestReply:
        async def read(limit: int) -> bytes:
            return make.batch(cluster=cluster)

        return asyncio.run(writers[0].take(f"Bearer {token}", "", read))

    try:
        assert post("alpha").status == 200
        refused = post("beta")
        assert refused.status == 403
        assert "cluster 'beta' is collected by another server, this one collects alpha" in refused.content["error"]

        def handed_on() -> bool:
            with engine.connect() as connection:
                query = text("SELECT cluster FROM quarantine WHERE retry")
                return connection.execute(query).scalars().all() == ["beta"]

        wait_until(handed_on, 30, lambda: "the batch of beta was not left to the writer of beta")
        writers.append(writer("beta"))

        def stored() -> bool:
            with engine.connect() as connection:
                names = connection.execute(text("SELECT cluster FROM nodes ORDER BY cluster")).scalars().all()
                return names == ["alpha", "beta"]

        wait_until(stored, 30, lambda: "the writer of beta did not store its batch")
        # A second writer of other clusters does not fence off the first.
        assert post("alpha").content["status"] == "duplicate"
    finally:
        for reception in writers:
            reception.committer.close()
    assert make.counts(engine)["batches_rejected", "collected by another server"] == 1


def test_a_query_server_without_a_writer_is_ready_and_takes_no_samples(sqlite_engine: Engine) -> None:
    client: Any = create_app(replace(SETTINGS, ingest_listen=""), sqlite_engine, sqlite_engine).test_client()
    assert client.get("/ready").json == {"status": "ok", "reason": None}
    # An agent keeps its batch: only some answers below 500, and not this one, mean that it can never be stored.
    assert client.post(URL, json=make.GOLDEN).status_code == 404
