"""The emulator against a real HTTP server: delivery, order of the accounting log, summary, failures."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.agent.collector import Answer, Request, collecting

from jobsight_agent.send import Target
from jobsight_emulator.cli import add_arguments, run
from jobsight_emulator.deliver import Delivery
from jobsight_emulator.emulation import PackedBatch
from jobsight_emulator.plan import EmulatorError

END = 1_700_000_040
AGENT = Path(__file__).parents[2] / "agent"


@dataclass
class Sink:
    """A collector of batches in memory; ``answer`` may give another answer than the ordinary one."""

    answer: Callable[[int], Answer | None] = lambda number: None
    batches: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)
    order: list[tuple[str, int]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, request: Request, body: bytes) -> Answer:
        with self.lock:
            self.requests += 1
            self.tokens.add(request.headers["Authorization"])
            given = self.answer(self.requests)
            if given is not None:
                return given
            batch = json.loads(gzip.decompress(body))
            key = (batch["node"], batch["boot_id"], batch["sequence"])
            self.order.append((batch["node"], batch["sequence"]))
            if key in self.batches:
                return 200, {"status": "duplicate"}, {}
            self.batches[key] = batch
            return 200, {"status": "stored", "samples": len(batch["time"])}, {}


@pytest.fixture
def serve() -> Iterator[Callable[[Sink], str]]:
    """Start servers for sinks; return their addresses."""
    with ExitStack() as servers:
        yield lambda sink: f"http://127.0.0.1:{servers.enter_context(collecting(sink.take))}"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("secret\n")
    return path


def _arguments(server: str, token: Path, out: Path, *more: str) -> list[str]:
    return [
        *("--server", server, "--token-file", str(token), "--accounting-out", str(out), "--end", str(END)),
        *("--nodes", "4", "--clusters", "2", "--weeks", str(2 / 24 / 7), *more),
    ]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_a_tiny_site_is_delivered_whole(
    serve: Callable[[Sink], str], token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink, out, progress = Sink(), tmp_path / "log", tmp_path / "progress"
    status = run(_parse(_arguments(serve(sink), token, out, "--progress-out", str(progress), "--batch", "20")))
    summary = json.loads(capsys.readouterr().out)
    assert status == 0
    assert summary["delivered"] is True
    received = sum(len(batch["time"]) for batch in sink.batches.values())
    assert received == summary["readings_made"] == summary["readings_acknowledged"]
    marks = sum(len(batch["marks"]) for batch in sink.batches.values())
    assert received - marks + summary["readings_lost_on_purpose"] == 4 * 120
    assert summary["requests"] == sink.requests >= len(sink.batches)
    assert summary["stored_twice"] == 0
    assert summary["refused"] == {}
    assert sink.tokens == {"Bearer secret"}
    lines = [line for path in out.glob("*/2*") for line in path.read_text().splitlines()]
    truths = list(csv.DictReader((out / "truth.csv").read_text().splitlines()))
    assert truths
    ended = {line.split(";")[2] for line in lines if line.split(";")[1] == "E" and "[]" not in line}
    assert {truth["job_id"] for truth in truths} == ended
    assert {path.name for path in out.iterdir()} == {"alpha", "beta", "truth.csv"}
    assert json.loads(progress.read_text())["readings"] == received


def test_the_log_never_runs_ahead_of_the_samples(serve: Callable[[Sink], str], token: Path, tmp_path: Path) -> None:
    out = tmp_path / "log"
    latest_truth: list[tuple[int, float]] = []
    reached: dict[str, float] = {}

    def look(number: int) -> Answer | None:
        rows = (out / "truth.csv").read_text().splitlines()[1:]
        if rows:
            latest_truth.append((max(int(row.split(",")[3]) for row in rows), min(reached.values())))
        return None

    class Watching(Sink):
        def take(self, request: Request, body: bytes) -> Answer:
            answer = super().take(request, body)
            batch = json.loads(gzip.decompress(body))
            with self.lock:
                reached[batch["node"]] = max(batch["time"][-1], reached.get(batch["node"], 0.0))
            return answer

    assert run(_parse(_arguments(serve(Watching(look)), token, out, "--batch", "10"))) == 0
    assert len(latest_truth) > 10
    # Up to two regular readings in a row may be missing at the end of a slice, and clocks may be 3 s off.
    assert all(end <= seen + 180 for end, seen in latest_truth)


def test_a_server_in_trouble_is_asked_again(
    serve: Callable[[Sink], str], token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    troubles: list[Answer] = [
        (503, {"error": "starting"}, {}),
        (429, {"error": "busy"}, {"Retry-After": "0"}),
        (500, {"error": "?"}, {}),
    ]
    sink = Sink(lambda number: troubles[number - 1] if number <= 3 else None)
    assert run(_parse(_arguments(serve(sink), token, tmp_path / "log"))) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["delivered"] is True
    assert sum(summary["retries"].values()) == 3
    assert sum(len(batch["time"]) for batch in sink.batches.values()) == summary["readings_made"]


def test_a_refused_batch_is_counted_and_fails_the_replay(
    serve: Callable[[Sink], str], token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = Sink(lambda number: (422, {"error": "time must rise"}, {}) if number == 2 else None)
    assert run(_parse(_arguments(serve(sink), token, tmp_path / "log"))) == 1
    summary = json.loads(capsys.readouterr().out)
    assert summary["delivered"] is False
    assert summary["refused"] == {"422 time must rise": 1}
    assert summary["readings_acknowledged"] < summary["readings_made"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {"error": "unknown token"}, {}), "give a token of role agent"),
        ((200, {"status": "welcome"}, {}), "answered 200 welcome: is it a Jobsight server?"),
    ],
)
def test_another_token_or_server_ends_the_replay_at_once(
    serve: Callable[[Sink], str],
    token: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    answer: Answer,
    said: str,
) -> None:
    sink = Sink(lambda number: answer)
    assert run(_parse(_arguments(serve(sink), token, tmp_path / "log"))) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["delivered"] is False
    assert said in captured.err
    assert sink.requests <= 2
    assert list((tmp_path / "log").glob("*/2*")) == []


def test_a_server_that_does_not_come_back_is_given_up(serve: Callable[[Sink], str], token: Path) -> None:
    sink = Sink(lambda number: (503, {"error": "away"}, {}))
    delivery = Delivery(
        Target(serve(sink), token, backoff_s=0.1), give_up_s=2.0
    )  # a busy machine may take a while over one try
    with delivery:
        group = delivery.send(0, [PackedBatch(b"x", 1)])
        with pytest.raises(EmulatorError, match="status 503"):
            delivery.wait(group)
    assert sink.requests >= 2
    assert delivery.counts.requests == 0


@pytest.mark.parametrize(
    ("more", "given"),
    [
        (["--nodes", "1"], "1 nodes in 2 clusters"),
        (["--batch", "0"], "0 readings per batch"),
        (["--server", "127.0.0.1:80"], "give http://HOST:PORT"),
        (["--token-file", "/does/not/exist"], "token file /does/not/exist"),
        (["--connections", "0"], "0 connections"),
        (["--live", "-1"], "--live -1: give 0 to"),
        (["--weeks", "inf"], "--weeks inf: give 0 to 520"),
        (["--nodes", "1000000"], "--nodes 1000000: give 0 to 100000"),
    ],
)
def test_wrong_options_are_reported_before_anything_is_written(
    more: list[str], given: str, token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(_parse(_arguments("http://127.0.0.1:9", token, tmp_path / "log", *more))) == 2
    assert given in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_replay_stops_cleanly(
    number: signal.Signals, serve: Callable[[Sink], str], token: Path, tmp_path: Path
) -> None:
    sink = Sink()
    code = (
        "import argparse, sys; from jobsight_emulator.cli import add_arguments, run; "
        "p = argparse.ArgumentParser(); add_arguments(p); sys.exit(run(p.parse_args()))"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code,
            *_arguments(serve(sink), token, tmp_path / "log", "--end", str(int(time.time())), "--live", "600"),
        ],
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while sink.requests < 3:  # on two connections: one of them was answered and goes on
        assert time.monotonic() < deadline, "nothing is sent"
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    summary = json.loads(out)
    assert summary["failure"] == "interrupted"
    assert summary["delivered"] is False
    assert "Traceback" not in err
    assert sum(len(batch["time"]) for batch in sink.batches.values()) >= summary["readings_acknowledged"] > 0


def test_from_the_present_on_the_replay_keeps_pace_with_the_clock(
    serve: Callable[[Sink], str], token: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A minute as fast as it goes, then three seconds in real time: no reading is sent before it can be taken."""
    sink, progress = Sink(), tmp_path / "progress"
    present = int(time.time())
    early: list[float] = []

    def look(number: int) -> None:
        with_future = [max(batch["time"]) - time.time() for batch in sink.batches.values()]
        early.extend(ahead for ahead in with_future if ahead > 15.0)  # a node's clock may be skewed

    sink.answer = look
    arguments = ["--server", serve(sink), "--token-file", str(token), "--accounting-out", str(tmp_path / "log")]
    arguments += ["--nodes", "2", "--clusters", "1", "--weeks", "0.0001", "--interval", "1", "--end", str(present)]
    status = run(_parse([*arguments, "--live", "3", "--progress-out", str(progress)]))
    assert status == 0
    assert time.time() >= present + 3
    summary = json.loads(capsys.readouterr().out)
    at_present = json.loads(progress.read_text())["present"]
    assert at_present["delivered"] is True
    assert at_present["reached"] == present
    assert 60 < at_present["readings_made"] < summary["readings_made"] == summary["readings_acknowledged"]
    assert summary["reached"] == present + 3
    assert not early
