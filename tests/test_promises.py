"""The list of promises against the tree: each test that it names exists, where and as the column says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/develop/promises.md").read_text().splitlines()
    if line.startswith("| ") and "| test |" not in line
]
NAMED = re.compile(r"`([a-z_/]+\.py)::(test_\w+)`")


def is_exhaustive(file: str, name: str) -> bool:
    """Return whether `make test` leaves it out: its file or the test is marked ``exhaustive`` or ``alone``."""
    text = (ROOT / "tests" / file).read_text()
    found = re.search(rf"((?:^@.*\n(?:^[ )\]].*\n)*)*)^(?:async )?def {name}\(", text, re.MULTILINE)
    assert found is not None, f"tests/{file} has no {name}"
    of_file = re.search(r"^pytestmark = (?:\[(?:\n .*)+|.*)", text, re.MULTILINE)
    marks = found[1] + (of_file[0] if of_file else "")
    return "mark.exhaustive" in marks or "mark.alone" in marks


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_promise_is_kept_by_tests_that_exist(row: list[str]) -> None:
    promise, often, rarely = row
    assert NAMED.search(often) or "marked" in often, f"no test in `make test` for: {promise}"
    assert [one for one in NAMED.findall(often) if is_exhaustive(*one)] == []
    assert [one for one in NAMED.findall(rarely) if not is_exhaustive(*one)] == []
