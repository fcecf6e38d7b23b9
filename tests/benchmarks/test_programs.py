"""Every benchmark loads: what it imports is still there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("program", sorted(BENCHMARKS.glob("*.py")), ids=lambda file: file.stem)
def test_it_loads(program: Path) -> None:
    assert runpy.run_path(str(program), run_name="loaded")["__doc__"]
