"""Two writers never store: a fencing number, checked in each transaction; a lost lock is taken again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests import make

from jobsight_server.ground.errors import FencedError
from jobsight_server.ingest.store import SampleStore
from jobsight_server.ingest.wire import Submission
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import Fence, LockedError, role_lock, take_over
from site_run import wait_until

MakeBatch = Callable[..., Any]

_HOLDERS = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database "
    "WHERE datname = current_database())"
)


def holders(engine: Engine) -> list[int]:
    return [pid for (pid,) in make.rows(engine, _HOLDERS)]


def end_holders(engine: Engine) -> None:
    """End the sessions of lock holders, like a restart of the database or a firewall."""
    make.execute(engine, f"SELECT pg_terminate_backend(pid) FROM ({_HOLDERS}) AS held")


@pytest.fixture
def postgresql_only(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("a lock on a file ends with its process alone")


def test_a_writer_that_was_taken_over_stores_nothing(engine: Engine, make_batch: MakeBatch) -> None:
    """30 rows belong: the first writer's first batch, and what the second stored."""
    ended: list[str] = []
    first = take_over(engine, "writer", lambda: ended.append("first"))
    old = SampleStore(first.guard(engine), 1e10, 10**6)
    old.apply([Submission(make_batch(sequence=0), 1, 5000.0)])
    second = take_over(engine, "writer", lambda: ended.append("second"))
    new = SampleStore(second.guard(engine), 1e10, 10**6)
    for number in range(1, 10):
        batch = make_batch(sequence=number, time=[1000.0 + 100 * number + k for k in range(3)])
        with pytest.raises(FencedError):
            old.apply([Submission(batch, 1, 5000.0)])
        assert new.apply([Submission(batch, 1, 5000.0)])[0].status == "stored"
    assert make.rows(engine, "SELECT sum(samples), count(*) FROM readings") == [(30, 10)]
    assert set(ended) == {"first"}


@pytest.mark.storage
def test_a_successor_waits_for_a_transaction_that_is_under_way(engine: Engine, postgresql_only: None) -> None:
    first = take_over(engine, "writer", lambda: None)
    guarded = first.guard(engine)
    taken: list[Fence] = []
    thread = threading.Thread(target=lambda: taken.append(take_over(engine, "writer", lambda: None)))
    with guarded.begin() as connection:
        thread.start()
        thread.join(1.0)
        assert not taken
        connection.execute(text("INSERT INTO event_counts (name, label, value) VALUES ('x', '', 1)"))
    thread.join(30)
    assert taken[0].epoch == first.epoch + 1
    with pytest.raises(FencedError), guarded.begin():
        pass


@pytest.mark.storage
def test_a_lost_lock_is_taken_again(engine: Engine, database_url: str, postgresql_only: None) -> None:
    own, other = open_engine(database_url), open_engine(database_url)
    with role_lock(own, "writer") as fence:
        before = holders(engine)
        end_holders(engine)
        wait_until(lambda: len(set(holders(engine)) - set(before)) == 1, 30, lambda: "the lock was not taken again")
        with pytest.raises(LockedError), role_lock(other, "writer"):
            pass
        with fence.guard(own).begin():
            pass
    assert holders(engine) == []
    own.dispose()
    other.dispose()


_HOLD = """
import sys, time
from jobsight_server.storage.engine import open_engine
from jobsight_server.storage.lock import role_lock
with role_lock(open_engine(sys.argv[1]), "writer"):
    print("held", flush=True)
    time.sleep(120)
"""


def test_a_process_whose_lock_went_to_another_ends(engine: Engine, database_url: str, postgresql_only: None) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, database_url], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    os.kill(process.pid, signal.SIGSTOP)  # it does not see what happens to its session
    end_holders(engine)
    wait_until(lambda: not holders(engine), 30, lambda: "the session is still there")
    other = open_engine(database_url)
    with role_lock(other, "writer"):
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == -signal.SIGTERM
    process.stdout.close()
    other.dispose()


def test_a_deleted_lock_file_does_not_make_two_writers(sqlite_engine: Engine, tmp_path: Path) -> None:
    caught: list[int] = []
    previous = signal.signal(signal.SIGTERM, lambda number, _: caught.append(number))
    try:
        with role_lock(sqlite_engine, "writer") as first:
            (tmp_path / "jobsight.db.writer.lock").unlink()
            with role_lock(sqlite_engine, "writer") as second:
                with pytest.raises(FencedError), first.guard(sqlite_engine).begin():
                    pass
                with second.guard(sqlite_engine).begin():
                    pass
        deadline = time.monotonic() + 60
        while not caught and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert caught == [signal.SIGTERM]


def test_a_fenced_writer_answers_503(engine: Engine, serve_writer: Callable[..., Any], golden: dict[str, Any]) -> None:
    with serve_writer(engine) as old:
        assert old.post(json.dumps(golden).encode())[0] == 200
        with serve_writer(engine) as new:
            later = json.dumps({**golden, "sequence": golden["sequence"] + 1}).encode()
            status, answer, headers = old.send(later)
            assert (status, headers["Retry-After"]) == (503, "5")
            assert "another server has taken over" in answer["error"]
            assert old.health()[0] == 503
            assert new.post(later)[0] == 200
            assert new.rows("SELECT count(*) FROM readings") == [(2,)]
