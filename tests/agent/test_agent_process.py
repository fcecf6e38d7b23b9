"""The agent as a process against a real HTTP server: killed, stopped, refused, kept waiting."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.agent.collector import Answer, Request, collecting, wait_for

AGENT = [sys.executable, "-m", "jobsight_agent.cli"]


@dataclass
class Collector:
    """An HTTP server that notes every batch and answers with the next of ``statuses``, then 200."""

    port: int = 0
    statuses: list[int] = field(default_factory=list)
    batches: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    connections: set[Any] = field(default_factory=set)

    def readings(self) -> list[float]:
        return sorted(time for batch in self.batches for time in batch["time"])


@contextlib.contextmanager
def serving(collector: Collector) -> Iterator[Collector]:
    def take(request: Request, body: bytes) -> Answer:
        collector.connections.add(request.client_address)
        status = collector.statuses.pop(0) if collector.statuses else 200
        if status == 200:
            collector.batches.append(json.loads(gzip.decompress(body)))
        collector.tokens.add(request.headers["Authorization"])
        return status, {"status": "stored"} if status == 200 else {"error": "as given"}, {}

    with collecting(take, collector.port) as collector.port:
        yield collector


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

    def noted(self) -> set[float]:
        """Times of the whole lines in the agent's journal."""
        found = set()
        for file in self.spool.glob("open-*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # closed just now
                found |= {json.loads(line)[0] for line in file.read_bytes().split(b"\n") if line.endswith(b"]")}
        return found

    def batches(self, folder: str = "batches") -> list[dict[str, Any]]:
        """Batches waiting to be sent."""
        found = []
        for file in sorted((self.spool / folder).glob("*.gz")):
            with contextlib.suppress(FileNotFoundError):  # sent just now
                found.append(json.loads(gzip.decompress(file.read_bytes())))
        return found

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*AGENT, *arguments, "--spool", str(self.spool)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def hook(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.command(*arguments)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with serving(Collector()) as running:
        yield running


def finish(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> str:
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert process.returncode == 0, errors
    return errors


def test_readings_arrive_over_one_connection_and_sigterm_sends_the_rest(node: Node, collector: Collector) -> None:
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 3)
    before = len(collector.batches)
    errors = finish(process)
    assert "n1 of cluster alpha: " in errors
    assert "the server accepted the first batch" in errors
    assert len(collector.batches) > before
    assert list((node.spool / "batches").iterdir()) == []
    assert len(collector.connections) == 1
    assert collector.tokens == {"Bearer secret"}
    first, last = collector.batches[0], collector.batches[-1]
    # A scheduler's jobs on this machine are read too.
    assert (first["cluster"], first["node"], first["format"]) == ("alpha", "n1", 2 if "jobs" in first else 1)
    assert first["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert first["cpus"] == os.cpu_count()
    sequences = [batch["sequence"] for batch in collector.batches]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    assert last["agent"]["readings"] >= len(collector.readings()) - 1
    assert 0 < last["agent"]["cpu_seconds"] < 60
    assert 5e6 < last["agent"]["rss_bytes"] < 60e6
    assert all(0 < value < 1e15 for value in last["memory_used_bytes"])
    assert sorted(last["cpu_busy_s"]) == last["cpu_busy_s"]


def test_kill_9_loses_no_reading_of_a_job_and_the_hook_reads_its_end(node: Node) -> None:
    """Cgroups as a file tree: read with the node, journalled, sent once each as format 2."""
    folder = node.directory / "root/sys/fs/cgroup/torque/4711.head"
    folder.mkdir(parents=True)
    (folder.parents[1] / "cgroup.controllers").write_text("memory cpu\n")
    (folder / "memory.stat").write_text("anon 5000\nfile 700\nshmem 300\n")
    (folder / "memory.current").write_text("6000\n")
    (folder / "memory.peak").write_text("9000\n")
    (folder / "cpu.stat").write_text("usage_usec 1500000\n")
    (node.directory / "root/proc").symlink_to("/proc")
    options = ("--host-root", str(node.directory / "root"), "--spool", str(node.spool))
    process = node.start(1, *options, "--batch-age-s", "60")
    wait_for(lambda: len(node.noted()) > 5)
    assert status_of(node)["job cgroups"] == "1"
    assert subprocess.run([*AGENT, "job-end", "4711.head", "--strict", *options], check=False).returncode == 0
    known = node.noted()
    finish(process, signal.SIGKILL)
    with serving(Collector()) as collector:
        process = node.start(collector.port, *options)
        wait_for(lambda: known <= set(collector.readings()))
        finish(process)
    assert len(collector.readings()) == len(set(collector.readings()))
    ends = 0
    for batch in collector.batches:
        (job,) = batch["jobs"]
        n = len(batch["time"])
        assert (batch["format"], job["job"], job["index"]) == (2, "4711.head", list(range(n)))
        assert (job["anon_bytes"], job["shmem_bytes"], job["file_bytes"]) == ([5000] * n, [300] * n, [400] * n)
        assert (job["cpu_s"], job["charged_bytes"], job["peak_bytes"]) == ([1.5] * n, [6000] * n, 9000)
        ends += len(batch["marks"])
    assert ends == 1


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
        (["--server", "collector:8470"], 1, "give http://HOST:PORT"),
        (["--token-file", "/nonexistent"], 1, "token file /nonexistent"),
        (["--spool", "/proc/spool"], 1, "give a directory that the agent may write"),
    ],
)
def test_what_cannot_be_used_is_named(node: Node, options: list[str], status: int, message: str) -> None:
    process = node.start(9, *options)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert message in errors
    assert "Traceback" not in errors


def status_of(node: Node, exit_status: int = 0) -> dict[str, str]:
    done = node.command("status")
    assert done.returncode == exit_status, done.stderr
    return {line[:18].strip(): line[18:] for line in done.stdout.splitlines()}


def test_refused_batches_are_sent_again_by_the_next_agent(node: Node, collector: Collector) -> None:
    collector.statuses = [422]
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 1)
    finish(process)
    assert status_of(node, exit_status=1)["batches rejected"] == "1"
    refused = node.batches("refused")[0]
    done = node.command("resend")
    assert (done.returncode, done.stdout) == (0, "1 batches will be sent again when the agent runs\n")
    process = node.start(collector.port)
    wait_for(lambda: refused["sequence"] in [batch["sequence"] for batch in collector.batches])
    finish(process)


def test_resend_where_no_agent_ever_was(node: Node) -> None:
    done = node.command("resend")
    assert done.returncode == 1
    assert "run it as root or as the agent's user" in done.stderr
    assert "Traceback" not in done.stderr
    done = node.command("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no spool directory" in done.stderr
    assert "--spool DIRECTORY" in done.stderr


def test_the_status_of_a_stopped_agent_shows_its_last_error(node: Node, collector: Collector) -> None:
    collector.statuses = [403] * 1000
    process = node.start(collector.port)
    wait_for(lambda: "answered 403" in node.command("status").stdout)
    wait_for((node.spool / "last-error").exists)
    finish(process, signal.SIGKILL)
    done = node.command("status")
    assert done.returncode == 1
    assert f"last error        http://127.0.0.1:{collector.port} answered 403 as given" in done.stdout
    assert f"no agent runs on the spool {node.spool}" in done.stderr
    collector.statuses = []
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 2)
    finish(process)
    assert "last error        -" in node.command("status").stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "jobsight-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs root and the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """At once: what the agent frees of its reserve meanwhile is not taken from it."""
    with (folder / "filler").open("wb") as file:
        free = os.statvfs(folder)
        for pages in range(free.f_bavail, 0, -1):
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, pages * free.f_bsize)
                return


def test_a_full_disk_does_not_stop_what_a_server_takes(small_disk: Path, collector: Collector) -> None:
    node = Node(small_disk)
    process = node.start(collector.port)
    wait_for(lambda: len(collector.batches) >= 1)
    fill(small_disk)
    before = len(collector.batches)
    wait_for(lambda: len(collector.batches) >= before + 4)
    finish(process)
