"""The container files. Where no container engine runs, their text is held to the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobsight_agent import cli as agent_cli
from jobsight_server.settings import SETTINGS

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


def test_compose_publishes_to_the_own_machine_only() -> None:
    ports = re.findall(r'^      - "([^"]+:\d+:\d+)"$', service("server"), re.MULTILINE)
    assert ports == ["127.0.0.1:8470:8470", "127.0.0.1:8471:8471"]
    assert "ports:" not in service("agent")


def test_compose_gives_the_agent_flags_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    flags = re.findall(r"^      - (--[\w-]+)=", service("agent"), re.MULTILINE)
    with pytest.raises(SystemExit):
        agent_cli.main(["run", "--help"])
    shown = capsys.readouterr().out
    assert flags
    assert [flag for flag in flags if flag not in shown] == []


@pytest.mark.parametrize("name", ["server", "agent"])
def test_compose_takes_every_privilege_away(name: str) -> None:
    for line in ("read_only: true", 'cap_drop: ["ALL"]', 'security_opt: ["no-new-privileges:true"]'):
        assert f"    {line}\n" in service(name)


def test_compose_keeps_the_token_in_a_file_outside_of_the_repository() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    assert "--token-file=/run/secrets/agent-token" in service("agent")
    assert "    file: ./secrets/agent-token\n" in text.partition("\nsecrets:\n")[2]
    assert "*" in (DEPLOY / "secrets" / ".gitignore").read_text().split()
