"""The core is complete without the placing systems: a copy without their folders says nothing of them, and passes its
own tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from jobsight_server.systems.listed import systems

ROOT = Path(__file__).parents[2]
WINGS = ("agent", "predictor", "scheduler", "server")
BESIDE = ("deploy", "docs", "examples", "papers", "tests", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
NAMED = re.compile(
    r"\b(matching|overbook\w*|offers?|rank(s|ed|ing)|reliability of machines)\b|/(matches|plan|resources)\b"
)
OF_PAGES = (
    "access",
    "advice",
    "health_and_metrics",
    "job_page",
    "listings",
    "openapi",
    "pages_http",
    "predictions",
    "roles",
)
SAID = """
import contextlib, io, json
from jobsight_server.cli import all_commands, main
from jobsight_server.serve.app import ROUTES
from jobsight_server.settings.load import SETTINGS
from jobsight_server.systems.listed import all_sections, systems
from jobsight_server.web.openapi import openapi

assert systems() == all_sections() == ()
print(json.dumps(openapi(ROUTES)))
print(*(setting.name for setting in SETTINGS))
for name in ("", *all_commands()):
    with contextlib.suppress(SystemExit):
        main([name, "--help"] if name else [])
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without the placing systems and their tests, whose distribution names no entry points of them."""
    core = tmp_path_factory.mktemp("core")
    for name in (*WINGS, *BESIDE):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, core / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(ROOT / name, core)
    for system in systems():
        shutil.rmtree(core / "server" / Path(*system.package.split(".")))
    shutil.rmtree(core / "tests" / "server" / "systems")
    installed = distribution("jobsight")
    named = core / "server" / f"jobsight-{installed.version}.dist-info"  # found before the one installed
    named.mkdir()
    (named / "METADATA").write_text(str(installed.read_text("METADATA")))
    (named / "entry_points.txt").write_text("[console_scripts]\njobsight = jobsight_server.cli:main\n")
    return core


def run(core: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join(map(str, (*(core / wing for wing in WINGS), core / "papers", core)))
    return subprocess.run(
        [sys.executable, *arguments], cwd=core, env={**os.environ, "PYTHONPATH": places}, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_nothing_that_the_core_says_names_them(core: Path) -> None:
    done = run(core, "-c", SAID)
    assert done.returncode == 0, done.stdout
    assert "/api/v1/predictions" in done.stdout
    templates = (core / "server" / "jobsight_server" / "web" / "templates").glob("*.html")
    for text in (done.stdout, *(template.read_text() for template in templates)):
        named = NAMED.search(text)
        assert named is None, text[max(0, named.start() - 200) : named.end() + 100]


@pytest.mark.exhaustive
def test_the_core_passes_its_own_tests(core: Path) -> None:
    """Those of pages, API and commands that need no placing system; tests of systems stand by system."""
    tests = core / "tests" / "server"
    of_core = [*(tests / "web" / f"test_{name}.py" for name in OF_PAGES), tests / "test_cli.py", tests / "test_help.py"]
    chosen = "not systems and not exhaustive and not slow"
    done = run(core, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", chosen, *map(str, of_core))
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 200
