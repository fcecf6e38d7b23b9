"""What `make test` ends with: the slowest tests with the CPU seconds of their children, and the skipped ones."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import subprocess, sys, time
import pytest

BURN = "while __import__('time').process_time() < 0.5: pass"

def test_burns(): subprocess.run([sys.executable, "-c", BURN])

def test_sleeps(): time.sleep(0.5)

@pytest.mark.parametrize("n", range(3))
def test_a(n): pytest.skip("no database here")

@pytest.mark.skip(reason="no browser here")
def test_b(): pass

def test_c(): pass
"""


@pytest.mark.exhaustive
def test_skipped_tests_are_counted_by_reason_and_slow_ones_listed(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parents[1] / "summary.py", tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    options = ["-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider", "-p", "summary"]
    command = [sys.executable, "-m", "pytest", *options, "-n", "1", "--slowest", "2", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines() if re.match(r" +[\d.]+ +[\d.]+ ", line)]
    cpu_seconds = {name.rpartition("::")[2]: float(cpu) for _, cpu, name in rows}
    assert cpu_seconds["test_burns"] >= 0.5 > cpu_seconds["test_sleeps"]
    assert set(cpu_seconds) == {"test_burns", "test_sleeps", "all tests"}
    skipped = [line.split(maxsplit=1) for line in done.stdout.partition("skipped tests by reason")[2].splitlines()]
    assert [row for row in skipped if row and row[0].isdigit()] == [["3", "no database here"], ["1", "no browser here"]]
