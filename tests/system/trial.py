"""An installation by `jobsight setup` below a prefix, beside a real scheduler."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.system.daemons import Daemons

from site_run import free_address, wait_until

JOBSIGHT = (sys.executable, "-m", "jobsight_server.cli")


@dataclass
class Trial:
    """A cluster, and an installation below a prefix."""

    cluster: Daemons
    prefix: Path
    port: int

    def jobsight(self, *arguments: str, status: int = 0) -> str:
        first = [] if (self.prefix / "etc/jobsight/jobsight.toml").exists() else ["--port", str(self.port)]
        command = [*JOBSIGHT, *arguments, "--prefix", str(self.prefix), *first]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=self.environment)
        assert done.returncode == status, (done.stdout, done.stderr)
        return done.stdout + done.stderr

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.cluster.environment}

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """The server, as the setup says that it is started."""
        settings = self.prefix / "etc/jobsight/jobsight.toml"
        with self._process([*JOBSIGHT, "serve", "--config", str(settings)], "serve"):
            wait_until(lambda: "ready" in (self.prefix / "serve").read_text(), 60, lambda: "no server")
            yield

    @contextlib.contextmanager
    def agent(self, root: Path) -> Iterator[None]:
        """The agent that the archive installed, which sends its batches sooner."""
        program = root / "opt/jobsight/agent/bin/jobsight-agent"
        settings = root / "etc/jobsight/agent.toml"
        often = ("--batch-age-s", "1", "--interval", "2")
        with self._process([str(program), "run", "--config", str(settings), *often], f"agent of {root.name}"):
            yield

    @contextlib.contextmanager
    def _process(self, command: list[str], name: str) -> Iterator[None]:
        with (self.prefix / name).open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment)
        try:
            yield
        finally:
            process.terminate()
            process.wait(40)

    def snapshot(self, *others: Path) -> dict[str, tuple[bytes, int]]:
        """Everything that the setup may write, except the database."""
        folders = (self.prefix / "etc", self.prefix / "usr", *others)
        files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
        return {str(file): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def free_port() -> int:
    """One with a free one after it, for the writer."""
    return int(free_address().rpartition(":")[2])
