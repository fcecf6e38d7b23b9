"""What a simulation from the page may take: memory and time of its process, and of the worker that takes the file."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import threading
import time
from typing import Any

import pytest
from msgspec import to_builtins
from sqlalchemy import Engine

from jobsight_server.errors import UserError
from jobsight_server.systems.simulations.execute import RunLimits, run_queued
from jobsight_server.systems.simulations.form import trace_of
from jobsight_server.systems.simulations.parameters import SimulationParameters
from jobsight_server.systems.simulations.queries import simulation_detail
from jobsight_server.systems.simulations.runs import add_run
from jobsight_server.systems.simulations.traces import read_upload


@pytest.fixture(autouse=True)
def path_for_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def swf(jobs: int, submit_every: float = 1.0) -> bytes:
    rows = (
        f"{i} {i * submit_every:g} -1 {40 + i * 37 % 300} {1 + i * 5 % 8} -1 -1 -1 600 -1 1 {i} -1 -1 -1 -1 -1 -1"
        for i in range(1, jobs + 1)
    )
    return ("; MaxProcs: 8\n" + "\n".join(rows) + "\n").encode()


def run(engine: Engine, content: bytes, policy: str, limits: RunLimits) -> dict[str, Any]:
    with engine.begin() as connection:
        number = add_run(
            connection, 0.0, SimulationParameters(policy), read_upload(io.BytesIO(content), "t.swf", 2**30), 5
        )
    run_queued(engine, threading.Event(), time.time, limits)
    with engine.connect() as connection:
        found = simulation_detail(connection, number)
    assert found is not None
    described: dict[str, Any] = to_builtins(found)
    return described


@pytest.mark.slow
def test_a_run_that_needs_more_memory_than_it_may_fails_and_says_so(sqlite_engine: Engine) -> None:
    small = RunLimits(memory_bytes=400_000_000)
    found = run(sqlite_engine, swf(5).replace(b"MaxProcs: 8", b"MaxProcs: 10000000"), "fcfs", small)
    assert found["state"] == "failed"
    assert "more than 400,000,000 bytes of memory: simulate a part of the trace" in found["error"]
    assert run(sqlite_engine, swf(50), "fcfs", small)["state"] == "done"


def test_a_run_that_takes_longer_than_it_may_is_ended_and_says_so(sqlite_engine: Engine) -> None:
    began = time.monotonic()
    found = run(sqlite_engine, swf(15_000, 0.01), "conservative", RunLimits(time_s=3.0))
    assert (found["state"], time.monotonic() - began < 60) == ("failed", True)
    assert "it took longer than 3 s: simulate a part of the trace" in found["error"]


@pytest.mark.exhaustive
def test_figures_by_user_stay_in_the_child(sqlite_engine: Engine) -> None:
    found = run(sqlite_engine, swf(800), "fcfs", RunLimits())
    assert found["state"] == "done"
    assert "by_user" not in found["all_figures"]
    assert len(json.dumps(found)) < 20_000


@pytest.mark.parametrize("packed", [False, True])
def test_one_line_of_60_mb_does_not_hold_a_worker(packed: bool) -> None:
    content = b"1 " * 30_000_000
    if packed:
        content = gzip.compress(content, 1)
    before = time.process_time()
    with pytest.raises(UserError, match=r"longer than 65,536 characters: left out .first: line 1: '1 1 1"):
        read_upload(io.BytesIO(content), "t.swf", 2**30)
    assert time.process_time() - before < 0.5
    late = swf(40_000) + b"1 " * 500_000
    assert len(read_upload(io.BytesIO(late), "t.swf", 2**30).begin) > 0, "a trace with such a line at its end"


def test_a_machine_beyond_reason_is_refused_where_it_is_asked_for(sqlite_engine: Engine) -> None:
    content = b"; MaxProcs: 1000000000\n" + swf(3).partition(b"\n")[2]
    with sqlite_engine.connect() as connection:
        for processors in (None, 4):
            upload = (io.BytesIO(content), "t.swf")
            if processors is None:
                with pytest.raises(UserError, match="MaxProcs: 1000000000 in the header; at most 10,000,000"):
                    trace_of(connection, "upload", upload, SimulationParameters("easy"), 2**20)  # type: ignore[arg-type]
            else:
                trace_of(connection, "upload", upload, SimulationParameters("easy", None, 4), 2**20)  # type: ignore[arg-type]
