"""The README's commands that need neither nodes nor a network, as they are written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^\$ (jobsight (?:[^\n]*\\\n)*[^\n]*)", README, re.MULTILINE)


@pytest.fixture
def run(tmp_path: Path) -> object:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def call(starts: str, *more: str) -> str:
        [command] = [command for command in COMMANDS if command.startswith(starts)]
        arguments = [sys.executable, "-m", "jobsight_server.cli", *shlex.split(command)[1:], *more]
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_its_first_blocks_have_the_report_and_both_targets() -> None:
    first, second = re.findall(r"```console\n(.*?)```", README, re.DOTALL)[:2]
    assert [line.split()[1:3] for line in first.splitlines()] == [["sacct", "-aD"], ["jobsight", "report"]]
    assert [line.split("#")[0].split()[1:] for line in second.splitlines()] == [["make", "demo"], ["make", "test"]]


def test_a_log_gives_the_report(run: object) -> None:
    printed = run("jobsight report examples")  # type: ignore[operator]
    assert "40 jobs ended." in printed
    assert re.search(r"Time limits, processor-hours +236 +236 +64\.1 +73 % +40", printed)


def test_old_accounting_files_give_the_forecasts_that_it_describes(run: object) -> None:
    run("jobsight import")  # type: ignore[operator]
    printed_json = run("jobsight predict", "--json")  # type: ignore[operator]
    answers = json.loads(printed_json)["predictions"]
    found = {answer["metric"]: answer for answer in answers}
    assert found["memory"]["probability"] > 0.8
    assert found["runtime"]["probability"] < 0.6
    assert found["runtime"]["value"] is not None
    assert max(found["runtime"]["last_values"]) > 1.8 * min(found["runtime"]["last_values"])
    assert (found["bandwidth"]["value"], found["bandwidth"]["reason"][:10]) == (None, "no history")
    assert all(answer["level"].startswith("user + application") for answer in answers if answer["level"])
    printed = run("jobsight predict").split()  # type: ignore[operator]
    written = README.partition("jobsight.db\nRequest")[2].partition("\n...\n")[0]
    wanted = f"Request{written}".split()
    assert len(wanted) > 40
    assert printed[: len(wanted)] == wanted


def test_what_it_installs_leaves_the_environment_of_make_alone() -> None:
    made = re.findall(r"python3 -m venv (\S+)", README)
    assert len(made) == 2
    assert ".venv" not in made


def test_every_command_that_needs_the_database_names_it() -> None:
    commands = [*COMMANDS, *re.findall(r"`(jobsight token [^`]+)`", README)]
    without = [command for command in commands if re.match(r"jobsight (token|serve|import|predict) ", command)]
    assert len(without) == 6
    assert [command for command in without if "--database " not in command] == []
