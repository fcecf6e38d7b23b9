"""The wheels that `make dist` builds, installed in empty environments: on a node the agent and psutil, no more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.make import not_none

ROOT = Path(__file__).parents[2]
VERSION = "0.3.0"

pytestmark = pytest.mark.slow


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels by name, built from no more than the container's build gets, by the same command."""
    source = tmp_path_factory.mktemp("source")
    containerfile = (ROOT / "deploy" / "Containerfile").read_text()
    for line in re.findall(r"^COPY (?!--)(.+) \S+$", containerfile, re.MULTILINE):
        for name in line.split():
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, source / name)
    build = not_none(re.search(r"^RUN pip (wheel .+)$", containerfile, re.MULTILINE))
    dist = re.search(r"^dist:.*\n(?:\t.*\n)*?\t.* pip (wheel .+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert dist is not None
    assert build[1].split()[-2:] == dist[1].split()[-2:] == [".", "./agent"]
    into = tmp_path_factory.mktemp("wheels")
    arguments = build[1].replace("/wheels", str(into)).split()
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], cwd=source, capture_output=True, text=True, check=False
    )
    _skip_without_registry(done)
    return {path.name.partition("-")[0]: path for path in into.glob("*.whl")}


def _skip_without_registry(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no package registry can be reached")
    assert done.returncode == 0, done.stderr


def installed(room: Path, wheel: Path) -> tuple[Path, set[str]]:
    """The wheel in an environment of its own: its folder of scripts, and the packages there."""
    venv.create(room, with_pip=True)
    scripts = room / "bin"
    pip = [str(scripts / "python"), "-m", "pip", "--disable-pip-version-check"]
    _skip_without_registry(run(*pip, "install", "--quiet", wheel))
    names = {package["name"] for package in json.loads(run(*pip, "list", "--format", "json").stdout)}
    return scripts, names - {"pip", "setuptools"}


def test_a_node_gets_the_agent_and_psutil_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    files = ZipFile(wheels["jobsight_agent"]).namelist()
    parts = {name.partition("/")[0].removeprefix(f"jobsight_agent-{VERSION}") for name in files}
    assert parts == {"jobsight_agent", ".dist-info", ".data"}
    assert [name for name in files if ".data/" in name] == [
        f"jobsight_agent-{VERSION}.data/data/share/man/man1/jobsight-agent.1"
    ]
    code = {path.name for path in (ROOT / "agent" / "jobsight_agent").iterdir() if path.is_file()}
    assert {name.partition("/")[2] for name in files if name.startswith("jobsight_agent/")} == code  # no bytecode
    assert len(code) <= 21
    scripts, names = installed(tmp_path, wheels["jobsight_agent"])
    assert names == {"jobsight-agent", "psutil"}
    assert run(scripts / "jobsight-agent", "--version").stdout.strip() == VERSION
    reading = run(scripts / "jobsight-agent", "run", "--help")
    assert reading.returncode == 0, reading.stderr
    replay = run(scripts / "jobsight-agent", "replay")
    assert replay.returncode == 1
    assert "the emulator is not part of the agent's package" in replay.stderr


@pytest.mark.exhaustive
def test_the_server_wheel_carries_what_setup_installs(wheels: dict[str, Path], tmp_path: Path) -> None:
    below = "jobsight_server/deploy/"
    carried = {name.removeprefix(below) for name in ZipFile(wheels["jobsight"]).namelist() if name.startswith(below)}
    files = {str(file.relative_to(ROOT / "deploy")) for file in (ROOT / "deploy").rglob("*") if file.is_file()}
    container_or_link = (
        "Containerfile",
        "README.md",
        "compose.yaml",
        "nginx",
        "secrets/",
        "gridengine/",
        "grafana/",
        "prometheus/",
        "man/",
        "completions/",
    )
    assert carried == {file for file in files if not file.startswith(container_or_link) and "__pycache__" not in file}
    scripts, names = installed(tmp_path, wheels["jobsight"])
    assert names == {"jobsight", "psutil"}
    shipped = "from jobsight_server.setup.shipped import shipped; import sys; sys.stdout.write(shipped(sys.argv[1]))"
    for name in (
        "slurm/job_submit.lua",
        "slurm/prolog",
        "hooks/mark-job",
        "node/install.sh",
        "jobsight.toml",
        "workflows/nextflow/jobsight.config",
    ):
        printed = run(scripts / "python", "-c", shipped, name)
        assert printed.stdout == (ROOT / "deploy" / name).read_text()
    assert run(scripts / "jobsight-agent", "--version").stdout.strip() == VERSION
    serve = run(scripts / "jobsight", "serve")
    assert serve.returncode == 1
    assert "is not installed: pip install 'jobsight[server]'" in serve.stderr
