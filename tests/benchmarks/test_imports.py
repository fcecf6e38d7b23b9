"""Benchmarks are run by hand; that they still find what they import is seen here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.exhaustive
def test_every_benchmark_can_be_loaded() -> None:
    names = sorted(file.stem for file in BENCHMARKS.glob("*.py") if file.stem != "__main__")
    assert len(names) > 15
    done = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(names)}"],
        env={"PYTHONPATH": str(BENCHMARKS), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
