"""The wheels that `make dist` builds, installed in empty environments: on a node the agent and psutil, no more."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.make import not_none

import jobsight_agent

ROOT = Path(__file__).parents[2]
VERSION = jobsight_agent.__version__
LOG = ROOT / "examples" / "accounting" / "20261101"

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
        "agent-deb.sh",
        "README.md",
        "compose.yaml",
        "nginx",
        "secrets/",
        "gridengine/",
        "grafana/",
        "prometheus/",
        "openondemand/",
        "man/",
        "completions/",
    )
    assert carried == {file for file in files if not file.startswith(container_or_link) and "__pycache__" not in file}
    scripts, names = installed(tmp_path, wheels["jobsight"])
    of_servers = {"apscheduler", "flask", "highspy", "matplotlib", "pandas", "scipy", "statsmodels", "uvicorn"}
    assert names & (of_servers | {"jobsight", "numpy", "psutil"}) == {"jobsight", "numpy", "psutil"}
    assert len(names) <= 17
    assert 60 < _megabytes(scripts.parent) < 150
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
    page = tmp_path / "report.html"
    report = run(scripts / "jobsight", "report", LOG, "--output", page)
    assert report.returncode == 0, report.stderr
    assert "40 jobs ended." in report.stdout
    assert "What to change first" in page.read_text()
    database = f"sqlite:///{tmp_path / 'jobsight.db'}"
    imported = run(scripts / "jobsight", "import", LOG, "--cluster", "alpha", "--database", database)
    assert imported.returncode == 0, imported.stderr
    assert run(scripts / "jobsight", "predict", "--user", "alice", "--database", database).returncode == 0
    for command in (["serve", "--database", database], ["simulate", tmp_path / "jobsight.db"], ["match", "jobs.json"]):
        refused = run(scripts / "jobsight", *command)
        assert refused.returncode == 1
        message = rf"jobsight {command[0]}: \w+ is not installed: pip install 'jobsight\[server\]'"
        assert re.fullmatch(message, refused.stderr.splitlines()[-1])


@pytest.mark.exhaustive
def test_the_source_distribution_gives_the_same_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path)
    assert done.returncode == 0, done.stderr
    (source,) = tmp_path.glob(f"jobsight-{VERSION}.tar.gz")
    _skip_without_registry(run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, source))
    (wheel,) = tmp_path.glob("*.whl")
    assert ZipFile(wheel).namelist() == ZipFile(wheels["jobsight"]).namelist()


@pytest.mark.exhaustive
def test_pipx_and_uvx_run_the_report(wheels: dict[str, Path], tmp_path: Path) -> None:
    """From the wheel, as `pipx run jobsight report` and `uvx jobsight report` do from an index."""
    venv.create(tmp_path / "tools", with_pip=True)
    tools = tmp_path / "tools" / "bin"
    _skip_without_registry(run(tools / "python", "-m", "pip", "install", "--quiet", "pipx", "uv"))
    environment = {**os.environ, "PIPX_HOME": str(tmp_path / "pipx"), "UV_CACHE_DIR": str(tmp_path / "uv")}
    wheel, page = wheels["jobsight"], tmp_path / "report.html"
    for runner in ([tools / "pipx", "run", "--spec", wheel], [tools / "uvx", "--from", wheel]):
        done = subprocess.run(
            [*runner, "jobsight", "report", LOG, "--output", page],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "40 jobs ended." in done.stdout
        page.unlink()


def _megabytes(folder: Path) -> float:
    """The size of all files but those of pip itself."""
    files = (file for file in folder.rglob("*") if file.is_file() and not {"pip", "setuptools"} & set(file.parts))
    return sum(file.stat().st_size for file in files) / 1e6
