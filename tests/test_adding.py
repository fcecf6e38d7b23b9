"""How to add something, against the tree: the files that docs/develop name are there, and the names in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`((?:agent|predictor|scheduler|server|tests|docs|deploy)/[\w./-]*)`")
TABLE = re.compile(r"`((?:server|predictor|tests)/[\w./]+\.py)`: (?:a row of|a line of|its name in|a field of) `(\w+)`")
PAGES = [ROOT / "docs/develop/adding.md", ROOT / "docs/develop/architecture.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_it_names_is_there(page: Path) -> None:
    named = PATH.findall(page.read_text())
    assert len(named) > 15
    assert [path for path in named if "NAME" not in path and "NOUN" not in path and not (ROOT / path).exists()] == []


def test_every_table_is_where_it_says() -> None:
    found = TABLE.findall(PAGES[0].read_text())
    assert len(found) >= 6
    assert [(file, name) for file, name in found if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []


def test_every_room_of_a_wing_has_a_row() -> None:
    text = PAGES[1].read_text()
    wings = ("predictor/jobsight_predictor", "scheduler/jobsight_scheduler", "server/jobsight_server")
    rooms = {room.name for wing in wings for room in (ROOT / wing).iterdir() if (room / "__init__.py").exists()}
    plumbing = {"auth", "command_line", "settings", "setup"}
    assert sorted(room for room in rooms - plumbing if not re.search(rf"[`/]{room}`", text)) == []
