"""The agent as a process against a real HTTP server: killed, stopped, refused, kept waiting."""

from __future__ import annotations

import contextlib
import gzip
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

AGENT = [sys.executable, "-m", "jobsight_agent.cli"]


@dataclass
class Collector:
    """An HTTP server that notes every batch and answers with the next of ``statuses``, then 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    connections: int = 0

    def readings(self) -> list[float]:
        return sorted(time for batch in self.batches for time in batch["time"])


@contextlib.contextmanager
def serving(collector: Collector) -> Iterator[Collector]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            collector.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = json.loads(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
            status = collector.statuses.pop(0) if collector.statuses else 200
            if status == 0:  # break off without an answer
                self.close_connection = True
                return
            if status == 200:
                collector.batches.append(body)
            collector.tokens.add(self.headers["Authorization"])
            self.send_response(status)
            answer = b'{"status": "stored"}' if status == 200 else b'{"error": "as told"}'
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", collector.port), Handler)
    server.daemon_threads = True
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Node:
    """The directory of an agent, and how to start it."""

    directory: Path

    def start(self, port: int, *options: str) -> subprocess.Popen[str]:
        token = self.directory / "token"
        token.write_text("secret\n")
        command = [
            *AGENT, "run", "--server", f"http://127.0.0.1:{port}", "--token-file", str(token), "--spool",
            str(self.spool), "--interval", "0.1", "--batch-age-s", "0.3", "--node", "n1", "--cluster", "alpha",
            "--backoff-most-s", "1", *options,
        ]  # fmt: skip
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    @property
    def spool(self) -> Path:
        return self.directory / "spool"

    def hook(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*AGENT, *arguments, "--spool", str(self.spool)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving(Collector()) as running:
        yield running


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def finish(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    if number == signal.SIGTERM:
        assert process.returncode == 0, errors
    return errors


def test_readings_arrive_over_one_connection_and_sigterm_sends_the_rest(node: Node, collector: Collector) -> None:
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 3)
    before = len(collector.batches)
    errors = finish(process)
    assert "n1 of cluster alpha: " in errors
    assert "the server took the first batch" in errors
    assert len(collector.batches) > before
    assert list((node.spool / "batches").iterdir()) == []
    assert collector.connections == 1
    assert collector.tokens == {"Bearer secret"}
    first, last = collector.batches[0], collector.batches[-1]
    assert (first["cluster"], first["node"], first["format"]) == ("alpha", "n1", 1)
    assert first["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert first["cpus"] == os.cpu_count()
    sequences = [batch["sequence"] for batch in collector.batches]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    assert last["agent"]["readings"] >= len(collector.readings()) - 1
    assert 0 < last["agent"]["cpu_seconds"] < 20
    assert 5e6 < last["agent"]["rss_bytes"] < 60e6
    assert all(0 < value < 1e15 for value in last["memory_used_bytes"])
    assert sorted(last["cpu_busy_s"]) == last["cpu_busy_s"]


def test_kill_9_and_an_absent_server_lose_no_reading(node: Node) -> None:
    with serving(Collector()) as away:
        port = away.port
    for _ in range(3):  # nobody listens; the agent reads on and is killed
        process = node.start(port)
        wait_for(lambda: bool(list((node.spool).glob("open-*.jsonl"))))
        time.sleep(0.7)
        finish(process, signal.SIGKILL)
    noted = {line.split(b",")[0] for f in node.spool.glob("open-*.jsonl") for line in f.read_bytes().split()}
    waiting = len(list((node.spool / "batches").glob("*.gz")))
    assert waiting >= 3
    with serving(Collector(port)) as back:
        process = node.start(port)
        wait_for(lambda: len(back.batches) > waiting + 2)
        finish(process)
    sequences = [batch["sequence"] for batch in back.batches]
    assert len(set(sequences)) == len(sequences)
    assert sequences == sorted(sequences)
    times = back.readings()
    assert len(times) == len(set(times))
    assert {float(text.strip(b"[")) for text in noted} <= set(times)
    assert len(times) >= 15
    assert back.batches[-1]["agent"]["batches_dropped"] == 0


def test_what_the_server_says_decides(node: Node, collector: Collector) -> None:
    collector.statuses = [503, 401, 0, 429, 422, 400]
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 4)
    errors = finish(process)
    sequences = [batch["sequence"] for batch in collector.batches]
    # 503, 401, a broken connection and 429 are tried again; 422 and 400 end the first and second batch.
    assert sequences[0] == int(min(sequences))
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    cost = collector.batches[-1]["agent"]
    assert (cost["batches_dropped"], cost["batches_refused"]) == (0, 2)
    assert cost["send_failures"] >= 3
    assert "answered 503" in errors
    assert "the server takes batches again" in errors


def test_hooks_mark_a_reading_at_that_instant(node: Node, collector: Collector) -> None:
    process = node.start(collector.port, "--interval", "0.5")
    wait_for(lambda: (node.spool / "marks").exists())
    before = time.time()
    assert node.hook("job-start", "4711.server").returncode == 0
    between = time.time()
    assert node.hook("job-end", "4711.server").returncode == 0
    after = time.time()

    def marks() -> list[tuple[str, str, float]]:
        return [
            (mark["event"], mark["job"], batch["time"][mark["index"]])
            for batch in collector.batches
            for mark in batch["marks"]
        ]

    wait_for(lambda: len(marks()) == 2)
    finish(process)
    (start, job, started), (end, _, ended) = sorted(marks(), key=lambda mark: mark[2])
    assert (start, end, job) == ("start", "end", "4711.server")
    assert before <= started <= between <= ended <= after
    assert list((node.spool / "marks").iterdir()) == []


def test_hooks_wait_for_an_agent_that_is_away(node: Node, collector: Collector) -> None:
    (node.spool / "marks").mkdir(parents=True)
    node.hook("job-start", "1.s")
    (node.spool / "marks" / "rubbish.json").write_text("{")
    process = node.start(collector.port)
    wait_for(lambda: any(batch["marks"] for batch in collector.batches))
    finish(process)
    assert [f.name for f in (node.spool / "damaged").iterdir()] == ["rubbish.json"]
    assert collector.batches[-1]["agent"]["metrics_missed"]["mark"] == 1


def test_a_hook_never_fails_a_job(node: Node) -> None:
    done = node.hook("job-start", "1.s")  # there is no spool
    assert done.returncode == 0
    assert "no reading at the start of job '1.s'" in done.stderr
    assert node.hook("job-end", "1.s", "--strict").returncode == 1
    assert node.hook("job-end", "x" * 300).returncode == 0


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--interval", "fast"], 2, "--interval: interval = 'fast' is not a number"),
        (["--batch", "0"], 2, "must be at least 1"),
        (["--server", "collector:8470"], 1, "give http://HOST:PORT"),
        (["--token-file", "/nonexistent"], 1, "token file /nonexistent"),
        (["--spool", "/proc/spool"], 1, "give a directory that the agent may write"),
        (["--config", "/nonexistent.toml"], 2, "configuration /nonexistent.toml"),
    ],
)
def test_what_cannot_be_used_is_named(node: Node, options: list[str], status: int, message: str) -> None:
    process = node.start(9, *options)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert message in errors
    assert "Traceback" not in errors
