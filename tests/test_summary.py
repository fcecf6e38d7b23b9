"""Tests that passed in one run can be left out of another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
def test_passes(): pass
def test_is_skipped(): pytest.skip("nothing is here")
@pytest.mark.parametrize("text", ["a\\nb", "ü"])
def test_has_names(text): pass
"""


def test_what_passed_is_left_out_of_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    passed = tmp_path / "passed"

    def run(**environment: str) -> str:
        path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
        quick = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "xdist.plugin",
            "-n",
            "1",
            "-p",
            "tests.summary",
            "--rootdir",
            ".",
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **quick, **environment}, capture_output=True,
            text=True, check=True, timeout=120,
        )  # fmt: skip
        return done.stdout.splitlines()[-1]

    assert run(JOBSIGHT_PASSED=str(passed)).startswith("3 passed, 1 skipped in ")
    assert len(passed.read_text().splitlines()) == 3
    assert run(JOBSIGHT_LEAVE_OUT=str(passed)).startswith("1 skipped in ")
