"""Every benchmark loads: what it imports is still there."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("program", sorted(BENCHMARKS.glob("*.py")), ids=lambda file: file.stem)
def test_it_loads(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    assert runpy.run_path(str(program), run_name="loaded")["__doc__"]
