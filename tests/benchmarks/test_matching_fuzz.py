"""The first of the batches that `benchmarks/matching_fuzz.py` compares with enumeration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
def test_matching_agrees_with_enumeration_on_batches_as_sites_have_them() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "matching_fuzz.py"), "--batches", "250"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
