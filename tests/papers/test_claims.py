"""The table of the papers' claims has the figures of the documents that it links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "papers"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (PAPERS / "README.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| claim", "| **"))
]
LINK = re.compile(r" ?\(\[[^]]+\]\(([^)#]+)#([^)]+)\)\)")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d[\d,]*)?\.?\d+(?![\w])")


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section(text: str, name: str) -> str:
    """The part of a document from the heading of this anchor to the next one."""
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return next(body for heading, body in zip(parts[1::2], parts[2::2], strict=True) if anchor(heading) == name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_figures_of_a_claim_are_those_of_its_document(row: list[str]) -> None:
    _claim, _published, here, verdict = row
    assert verdict.startswith(("reproduced", "explained: ", "not"))
    link = LINK.search(here)
    assert bool(link) == bool(here)
    if link is None:
        assert verdict.startswith(("not repeated", "not tabulated"))
        return
    found = set(NUMBER.findall(section((PAPERS / link[1]).read_text(), link[2])))
    assert set(NUMBER.findall(LINK.sub("", here))) <= found
