"""The agent with nothing but its package, psutil and the standard library, as on a node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import jobsight_agent

PROGRAM = [sys.executable, "-S", "-m", "jobsight_agent.cli"]  # -S: without what else is installed


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """An environment in which Python finds nothing but the agent and psutil."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (jobsight_agent, psutil):
        assert package.__file__ is not None
        folder = Path(package.__file__).parent
        (packages / folder.name).symlink_to(folder)
    return {**os.environ, "PYTHONPATH": str(packages)}


def test_the_agent_measures(alone: dict[str, str], tmp_path: Path) -> None:
    token, spool = tmp_path / "token", tmp_path / "spool"
    token.write_text("secret\n")
    options = ["--server", "http://127.0.0.1:9", "--token-file", str(token), "--spool", str(spool)]
    process = subprocess.Popen(
        [*PROGRAM, "run", *options, "--interval", "0.1", "--batch-age-s", "0.3"],
        env=alone,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(spool.glob("batches/*.gz")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "no batch was closed"
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
