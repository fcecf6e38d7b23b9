"""A site on this machine: the server and the replay as processes, used through their public interfaces."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from ports import taken

JOBSIGHT = [sys.executable, "-m", "jobsight_server.cli"]
AGENT = [sys.executable, "-m", "jobsight_agent.cli"]


class Site:
    """A directory with a database, accounting files and a running server.

    ``api`` uses a token of role admin from `jobsight token create`.
    """

    def __init__(self, directory: Path, clusters: Sequence[str], listen: str, settings: Sequence[str] = ()) -> None:
        self._set_places(directory, listen)
        host, port = listen.rsplit(":", 1)
        for cluster in clusters:
            (self.accounting / cluster).mkdir(parents=True)
        self.agent_token_file = directory / "agent.token"
        self._token = self._create_token("admin")
        self.agent_token_file.touch(mode=0o600)
        self.agent_token_file.write_text(self._create_token("agent", "--any-cluster"))
        self._command = [
            *JOBSIGHT, "serve", "--database", self.database, "--listen", listen,
            # An emulated job's traffic passes both networks of its nodes, and the truth is their sum.
            "--ingest-listen", f"{host}:{int(port) + 1}", "--fabric", "sum", *settings,
            *(part for c in clusters for part in ("--accounting", f"{c}={self.accounting / c}")),
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def _set_places(self, directory: Path, listen: str) -> None:
        self.directory = directory
        self.accounting = directory / "accounting"
        self.database = f"sqlite:///{directory / 'jobsight.db'}"
        self.url = f"http://{listen}"
        host, port = listen.rsplit(":", 1)
        self.ingest_url = f"http://{host}:{int(port) + 1}"
        self.log = directory / "server.log"
        self.replay_log = directory / "replay.log"

    @classmethod
    def running(cls, directory: Path, listen: str) -> Site:
        """Return a site that another process made in ``directory`` and serves."""
        site = cls.__new__(cls)
        site._set_places(directory, listen)
        site._token = site._create_token("admin")
        return site

    @contextmanager
    def serve(self) -> Iterator[None]:
        """Run the server while the block runs."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
            try:
                wait_until(self._answers, 180, lambda: f"the server does not answer:\n{self.log.read_text()[-2000:]}")
                yield
            finally:
                _end(self.process, 60)

    def kill(self) -> None:
        """Kill all processes of the server at once, and return when they are gone."""
        if self.process is None:
            raise ValueError("the server was not started")
        supervisor = psutil.Process(self.process.pid)
        processes = [supervisor, *supervisor.children(recursive=True)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, timeout=60)

    @contextmanager
    def replay(self, *options: str) -> Iterator[subprocess.Popen[str]]:
        """Run `jobsight-agent replay` against this site during the block; its summary is on standard output."""
        command = [
            *AGENT, "replay", "--server", self.ingest_url, "--token-file", str(self.agent_token_file),
            "--accounting-out", str(self.accounting), "--truth-out", str(self.directory / "truth.csv"),
            "--progress-out", str(self.directory / "progress.json"), *options,
        ]  # fmt: skip
        with self.replay_log.open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        try:
            yield process
        finally:
            _end(process, 30)
            if process.stdout is not None:
                process.stdout.close()

    def progress(self) -> dict[str, Any]:
        """Read the progress of the replay."""
        file = self.directory / "progress.json"
        if not file.exists():
            return {"readings": 0, "emulated_time": 0, "present": None}
        return dict(json.loads(file.read_text()))

    def api(self, path: str, **query: str) -> Any:
        """Return the JSON answer of ``/api/v1/PATH``."""
        url = f"{self.url}/api/v1/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def metrics(self) -> str:
        """Return the metrics as Prometheus reads them."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Bearer {self._token}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return str(response.read().decode())

    def token(self, role: str) -> str:
        """Create a token of this role."""
        return self._create_token(role)

    def login_link(self) -> str:
        """Create a one-time login to the pages."""
        return self._run("token", "login", "--url", self.url).split()[-1]

    def counts(self) -> Counter[str]:
        """Return the counts of all events, over their labels."""
        found: Counter[str] = Counter()
        for entry in self.api("rejected")["event_counts"]:
            found[entry["name"]] += entry["value"]
        return found

    def settled(self, ended: int) -> bool:
        """Return whether at least this many runs have ended and are profiled."""
        jobs = self.api("now")["runs"]
        return bool(jobs["ended"] >= ended and jobs["waiting"] <= jobs["ended"] - ended)

    def truth(self) -> list[dict[str, str]]:
        """Read the rows of the replay's truth file."""
        with (self.directory / "truth.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/ready", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def _create_token(self, role: str, *options: str) -> str:
        return self._run("token", "create", "--role", role, *options).split()[-1]

    def _run(self, *command: str) -> str:
        """Run a command; return its output, and show its messages only if it failed."""
        done = subprocess.run([*JOBSIGHT, *command, "--database", self.database], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr.strip())
        return done.stdout


def wait_until(
    condition: Callable[[], bool], seconds: float, complaint: Callable[[], str], pause_s: float = 0.25
) -> None:
    """Wait for ``condition``.

    Raises:
        TimeoutError: it was not true in time; the message is the complaint.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(complaint())
        time.sleep(pause_s)


def _end(process: subprocess.Popen[Any], seconds: float) -> None:
    """End the process, by force after ``seconds``."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_address() -> str:
    """Return HOST:PORT with this port and the next free; processes search different ranges."""
    for port in range(20000 + os.getpid() % 600 * 20, 60000, 2):
        if not (taken("127.0.0.1", port) or taken("127.0.0.1", port + 1)):
            return f"127.0.0.1:{port}"
    raise OSError("no two free ports in a row on 127.0.0.1")
