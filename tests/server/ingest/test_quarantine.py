"""Rejected batches are kept whole, within a budget, and stored on a retry once the cause is removed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine

from site_run import wait_until

Serve = Callable[..., Any]
NOW = 1_700_000_100.0


def batch(golden: dict[str, Any], number: int, **changes: Any) -> bytes:
    time = [1_700_000_000.0 + 10 * number + step for step in range(4)]
    return json.dumps({**golden, "sequence": number, "time": time, **changes}).encode()


def settled(writer: Any) -> None:
    """Wait until no batch is to be processed again."""
    wait_until(lambda: writer.rows("SELECT count(*) FROM quarantine WHERE retry") == [(0,)], 30, lambda: "retries wait")


@pytest.mark.parametrize(("wrong", "reason"), [(NOW - 7200, "ahead of"), (NOW + 95 * 86400, "older than")])
def test_a_wrong_clock_costs_nothing(
    engine: Engine, serve_writer: Serve, golden: dict[str, Any], wrong: float, reason: str
) -> None:
    """Each start tries again, with the clock as it was, and then corrected."""
    with serve_writer(engine, lambda: wrong) as writer:
        for number in range(3):
            packed = gzip.compress(batch(golden, number)) if number else batch(golden, number)
            status, answer = writer.post(packed, Content_Encoding="gzip" if number else "")
            assert (status, reason in answer["error"]) == (422, True)
        assert writer.post(b"not JSON")[0] == 422
    with serve_writer(engine, lambda: wrong) as writer:
        settled(writer)
        assert writer.rows("SELECT count(*) FROM quarantine") == [(4,)]
    with serve_writer(engine, lambda: NOW) as writer:
        assert writer.post(batch(golden, 0))[1]["status"] in {"stored", "duplicate"}  # its agent had kept this one
        settled(writer)
        assert writer.rows("SELECT sum(samples) FROM readings") == [(12,)]
        assert writer.rows("SELECT sequence FROM readings ORDER BY 1") == [(0,), (1,), (2,)]
        counts = writer.counts()
        retried = {label: count for (name, label), count in counts.items() if name == "quarantine_retried"}
        assert retried["stored"] + retried.get("duplicate", 0) == 3
        assert retried["refused"] == 4 + 1
        sums = writer.balance()
        assert (sums["stored"], sums["duplicate"], sums["quarantined"]) == (3, 1, 4)
        assert writer.rows("SELECT body FROM quarantine") == [(b"not JSON",)]


@pytest.mark.storage
def test_a_conflict_stays_in_quarantine(engine: Engine, serve_writer: Serve, golden: dict[str, Any]) -> None:
    with serve_writer(engine) as writer:
        assert writer.post(batch(golden, 1))[0] == 200
        assert writer.post(batch(golden, 1, cpus=99))[0] == 422
    with serve_writer(engine) as writer:
        settled(writer)
        assert writer.rows("SELECT count(*) FROM quarantine") == [(1,)]
        counts = writer.counts()
        assert counts["batches_quarantined", ""] == counts["quarantined_because", "conflict"] == 2
        writer.balance()


@pytest.mark.storage
def test_a_budget_of_nothing_keeps_nothing(engine: Engine, serve_writer: Serve) -> None:
    with serve_writer(engine, quarantine_bytes=0) as writer:
        assert writer.post(b"not JSON")[0] == 422
        assert writer.rows("SELECT count(*) FROM quarantine") == [(0,)]
        assert writer.counts()["quarantine_dropped", ""] == 1
