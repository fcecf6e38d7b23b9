"""The container files. Where no container engine runs, their text is held to the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from jobsight_agent import __version__
from jobsight_agent import cli as agent_cli
from jobsight_server.settings.load import SETTINGS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def stages() -> dict[str, list[str]]:
    """The instructions of each stage, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text())
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"FROM (\S+) AS (\w+)", line):
            name = match[2]
            assert match[1] == "python:3.11-slim" or match[1] in found
            found[name] = [f"FROM {match[1]}"]
        elif line and not line.startswith("#"):
            found[name].append(line)
    return found


@pytest.mark.parametrize("target", ["server", "agent"])
def test_images_do_not_run_as_root(target: str) -> None:
    lines = stages()[target]
    users = [line for line in lines if line.startswith("USER")]
    assert users == ["USER jobsight"]
    assert lines.index("USER jobsight") < next(n for n, line in enumerate(lines) if line.startswith("ENTRYPOINT"))


def test_build_copies_what_the_project_builds_from() -> None:
    sources = [word for line in stages()["build"] if line.startswith("COPY") for word in line.split()[1:-1]]
    assert [source for source in sources if not (ROOT / source).exists()] == []
    packages = re.findall(r'"(\w+)/jobsight_\w+",', (ROOT / "pyproject.toml").read_text())
    assert set(packages) | {"deploy", "pyproject.toml", "README.md", "LICENSE"} == set(sources)
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {f"!{source}" for source in sources} == {line for line in ignored if line.startswith("!")}


def test_variables_of_the_server_image_are_settings() -> None:
    names = re.findall(r"\b(JOBSIGHT_\w+)=", "\n".join(stages()["server"]))
    assert names
    assert set(names) <= {setting.environment for setting in SETTINGS}


def service(name: str) -> str:
    text = (DEPLOY / "compose.yaml").read_text()
    match = re.search(rf"^  {name}:\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert match
    return match[1]


def test_compose_gives_the_agent_flags_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    flags = re.findall(r"^      - (--[\w-]+)=", service("agent"), re.MULTILINE)
    with pytest.raises(SystemExit):
        agent_cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert flags
    assert [flag for flag in flags if flag not in shown] == []


def engine() -> str | None:
    """A container engine that answers, if there is one."""
    for name in filter(shutil.which, ("podman", "docker")):
        if subprocess.run([name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    return None


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_images_are_built_and_the_server_answers() -> None:
    builder = engine()
    if builder is None:
        pytest.skip("no container engine answers: neither podman nor docker")

    def run(*arguments: str) -> str:
        done = subprocess.run([builder, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    for target in ("agent", "server"):
        run("build", "-f", "deploy/Containerfile", "--target", target, "-t", f"jobsight-{target}:test", ".")
    assert run("run", "--rm", "jobsight-agent:test", "--version") == __version__
    server = run("run", "--detach", "--rm", "jobsight-server:test")
    try:
        asked = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8470/health').status)"
        for _ in range(60):
            answer = [builder, "exec", server, "python", "-c", asked]
            done = subprocess.run(answer, capture_output=True, text=True, check=False)
            if done.stdout == "200\n":
                break
            time.sleep(1)
        else:
            pytest.fail(f"the server does not answer: {done.stderr[-300:]}")
    finally:
        run("stop", server)
