"""Group commit: a batch that cannot be stored does not affect others; a bug ends the process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine
from tests import make

from jobsight_server.ingest.committer import Found, GroupCommitter
from jobsight_server.ingest.store import Refusal, SampleStore
from jobsight_server.ingest.wire import RefusedBatchError, Submission, UnavailableError

MakeBatch = Callable[..., Any]


def submission(batch: Any) -> Submission:
    return Submission(batch, 1, received_at=5000.0)


def test_one_that_cannot_be_stored_takes_no_other_with_it(engine: Engine, make_batch: MakeBatch) -> None:
    hold = threading.Event()

    def wait() -> bool:
        hold.wait(30)
        return False

    committer = GroupCommitter(SampleStore(engine, 1e10, 10**6), chores=[wait])
    found: queue.SimpleQueue[Found] = queue.SimpleQueue()
    for n in range(5):  # one group, because the thread is busy
        committer.submit(submission(make_batch(sequence=n, node=f"n{n}", cpus=2**70 if n == 2 else 4)), found.put)
    committer.refuse(Refusal("wrong", "wrong content", 1.0, b"abc"), found.put)
    hold.set()
    outcomes = [found.get(timeout=60) for _ in range(6)]
    assert isinstance(outcomes[2], RefusedBatchError)
    assert [one.status for one in outcomes] == ["stored", "stored", 422, "stored", "stored", "quarantined"]
    assert committer.trouble is None
    committer.close()
    assert make.rows(engine, "SELECT count(*) FROM readings") == [(4,)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_program_is_not_waited_for(sqlite_engine: Engine, make_batch: MakeBatch) -> None:
    ended = threading.Event()

    def faulty() -> bool:
        raise RuntimeError("a fault")

    committer = GroupCommitter(SampleStore(sqlite_engine, 1e10, 10**6), chores=[faulty], on_fault=ended.set)
    assert ended.wait(30)
    deadline = threading.Event()
    while committer.trouble is None:
        deadline.wait(0.01)
    with pytest.raises(UnavailableError):
        committer.submit(submission(make_batch()), lambda found: None)
    committer.close()
