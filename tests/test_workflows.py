"""The workflows of a public forge: valid YAML whose commands the Makefile has; and the interpreters that it tries."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MADE = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def steps(file: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(file.read_text())["jobs"].values():
        assert job["runs-on"]
        yield from job["steps"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_each_step_runs_what_is_here(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
    runs = [step["run"] for step in steps(file) if "run" in step]
    made = [target for run in runs if run.startswith("make ") for target in run.split()[1:]]
    assert len(made) >= 5
    assert set(made) <= set(MADE)
    assert all(re.fullmatch(r"[\w./-]+@[\w./-]+", step["uses"]) for step in steps(file) if "uses" in step)
    named = re.findall(r"(?:tests|agent|deploy)/[\w./-]+", " ".join(runs))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_it_tries_the_oldest_python_and_two_more() -> None:
    file = ROOT / ".github" / "workflows" / "tests.yml"
    tried = yaml.safe_load(file.read_text())["jobs"]["tests"]["strategy"]["matrix"]["python"]
    oldest = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert oldest == f">={tried[0]}"
    assert tried == ["3.11", "3.12", "3.13"]


def test_templates_name_documents_that_are_here() -> None:
    texts = [file.read_text() for file in (ROOT / ".github").rglob("*.md")]
    named = [name for text in texts for name in re.findall(r"`([\w/]+\.md)`", text)]
    assert len(named) >= 4
    assert [name for name in named if not (ROOT / name).exists()] == []
