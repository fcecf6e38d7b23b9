"""The import contract inside the server fails where a placing system imports another."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "agent": ("jobsight_agent", "jobsight_emulator"),
    "predictor": ("jobsight_predictor",),
    "scheduler": ("jobsight_scheduler",),
    "server": ("jobsight_server",),
    "papers": ("jobsight_papers",),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for wing, packages in PACKAGES.items():
        for package in packages:
            target = copy / wing / package
            shutil.copytree(ROOT / wing / package, target, ignore=shutil.ignore_patterns("__pycache__", "static"))
    return copy


def contracts(tree: Path) -> str:
    command = Path(sys.executable).with_name("lint-imports")
    path = ":".join(str(tree / wing) for wing in PACKAGES)
    done = subprocess.run(
        [command, "--no-cache"], cwd=tree, env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("file", "imported", "contract"),
    [
        ("systems/offers/offer.py", "systems.matching.service", "Placing systems know nothing of one another"),
        ("ingest/store.py", "systems.offers.standing_plan", "The server imports downward only"),
        ("storage/upkeep.py", "profiler.run", "The server imports downward only"),
    ],
)
def test_an_import_against_the_arrows_is_named(tree: Path, file: str, imported: str, contract: str) -> None:
    module = tree / "server/jobsight_server" / file
    right = module.read_text()
    module.write_text(f"{right}\nimport jobsight_server.{imported}\n")
    try:
        given = contracts(tree)
    finally:
        module.write_text(right)
    assert f"{contract} BROKEN" in " ".join(given.split())
    assert f"jobsight_server.{imported}" in given
