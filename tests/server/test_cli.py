"""The command `jobsight` itself, whatever the command after it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_nobody_reads_on(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "jobsight_server.cli", *arguments]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
