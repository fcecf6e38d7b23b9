"""`benchmarks/soak.py` in small: a minute, fewer nodes, a process killed every 15 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_minute_of_soaking_loses_nothing() -> None:
    command = [sys.executable, str(SOAK), "--minutes", "1", "--nodes", "60", "--kill-every", "15"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost, nothing doubled" in done.stdout
    assert "killed: none" not in done.stdout
