"""Short runs of `benchmarks/hostile.py`: clients that drip, stall, idle, linger, do not read, or send only trailers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.alone

HOSTILE = Path(__file__).parents[2] / "benchmarks" / "hostile.py"


@pytest.mark.slow
def test_honest_clients_are_answered_beside_five_hundred_that_mean_harm() -> None:
    command = [sys.executable, str(HOSTILE), "--connections", "500", "--seconds", "12", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    # The requirement is one of an idle machine; where several programs share a core, all of them take longer.
    shared_by = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert found["failures"] == {}
    for name, times in found["beside"].items():
        assert times["n"] >= 10, name
        assert times["median_ms"] <= 100 * shared_by, (name, found)
        assert times["worst_ms"] <= 1000 * shared_by, (name, found)
    held = found["holdings"]
    assert held["during"]["sockets"] > held["before"]["sockets"] + 500, "the hostile clients were not there"
    for kind, number in held["after"].items():
        assert number <= held["before"][kind], (kind, held)
    assert found["resident_bytes"]["during"] - found["resident_bytes"]["before"] < 64 * 2**20
    assert found["dropped"]["query: request too slow"] > 0
    assert found["dropped"]["writer: request too slow"] > 0
