"""The summary of skipped tests that `make test` ends with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_a(n): pytest.skip("no database here")

@pytest.mark.skip(reason="no browser here")
def test_b(): pass

def test_c(): pass
"""


@pytest.mark.exhaustive
def test_skipped_tests_are_counted_by_reason(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parents[1] / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    summary = [line.split(maxsplit=1) for line in done.stdout.partition("skipped tests by reason")[2].splitlines()]
    found = [words for words in summary if words and words[0].isdigit()]
    assert found == [["3", "no database here"], ["1", "no browser here"]]
