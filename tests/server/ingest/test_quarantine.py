"""Rejected batches are kept whole, within a budget, and stored on a retry once the cause is removed."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine

from jobsight_server.cli import main

Serve = Callable[..., Any]
NOW = 1_700_000_100.0


@dataclass
class Clock:
    """The server's clock, which is wrong and then corrected."""

    now: float

    def __call__(self) -> float:
        return self.now


def batch(golden: dict[str, Any], number: int, **changes: Any) -> bytes:
    time = [1_700_000_000.0 + 10 * number + step for step in range(4)]
    return json.dumps({**golden, "sequence": number, "time": time, **changes}).encode()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("wrong", "reason"), [(NOW - 7200, "ahead of"), (NOW + 95 * 86400, "older than")])
def test_a_wrong_clock_costs_nothing(
    engine: Engine,
    database_url: str,
    serve_writer: Serve,
    golden: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    wrong: float,
    reason: str,
) -> None:
    clock = Clock(wrong)
    with serve_writer(engine, clock) as writer:
        for number in range(3):
            packed = gzip.compress(batch(golden, number)) if number else batch(golden, number)
            status, answer = writer.post(packed, Content_Encoding="gzip" if number else "")
            assert (status, reason in answer["error"]) == (422, True)
        assert writer.post(b"not JSON")[0] == 422
        assert main(["quarantine", "retry", "1", "--database", database_url]) == 1  # the clock is as it was
        assert reason in capsys.readouterr().out
        clock.now = NOW
        assert writer.post(batch(golden, 0))[1]["status"] == "stored"  # its agent had kept this one
        assert main(["quarantine", "retry", "--database", database_url]) == 1
        said = capsys.readouterr().out
        assert "3 of 4 batches were accepted" in said
        assert "rejected again: JSON is malformed" in said
        assert writer.rows("SELECT sum(samples) FROM readings") == [(12,)]
        assert writer.rows("SELECT sequence FROM readings ORDER BY 1") == [(0,), (1,), (2,)]
        counts = writer.counts()
        retried = {label: count for (name, label), count in counts.items() if name == "quarantine_retried"}
        assert retried == {"stored": 2, "duplicate": 1, "refused": 2}
        sums = writer.balance()
        assert (sums["stored"], sums["duplicate"], sums["quarantined"]) == (3, 1, 4)
        assert main(["quarantine", "retry", "4", "--database", database_url]) == 1
        assert writer.rows("SELECT id, retry FROM quarantine") == [(4, False)]


@pytest.mark.storage
def test_a_conflict_stays_in_quarantine(
    engine: Engine, database_url: str, serve_writer: Serve, golden: dict[str, Any]
) -> None:
    with serve_writer(engine) as writer:
        assert writer.post(batch(golden, 1))[0] == 200
        assert writer.post(batch(golden, 1, cpus=99))[0] == 422
        assert main(["quarantine", "retry", "--database", database_url]) == 1
        assert writer.rows("SELECT count(*) FROM quarantine") == [(1,)]
        counts = writer.counts()
        assert counts["batches_quarantined", ""] == counts["quarantined_because", "conflict"] == 2
        writer.balance()


@pytest.mark.storage
def test_what_was_marked_before_a_stop_is_taken_in_after_the_start(
    engine: Engine, database_url: str, serve_writer: Serve, golden: dict[str, Any]
) -> None:
    with serve_writer(engine, Clock(NOW - 7200)) as writer:
        assert writer.post(batch(golden, 1))[0] == 422
    assert main(["quarantine", "retry", "--wait", "0", "--database", database_url]) == 1
    with serve_writer(engine) as writer:
        done = threading.Event()
        for _ in range(200):
            if writer.rows("SELECT count(*) FROM quarantine") == [(0,)]:
                break
            done.wait(0.1)
        assert writer.rows("SELECT sum(samples) FROM readings") == [(4,)]


@pytest.mark.storage
def test_a_budget_of_nothing_keeps_nothing(engine: Engine, serve_writer: Serve) -> None:
    with serve_writer(engine, quarantine_bytes=0) as writer:
        assert writer.post(b"not JSON")[0] == 422
        assert writer.rows("SELECT count(*) FROM quarantine") == [(0,)]
        assert writer.counts()["quarantine_dropped", ""] == 1
