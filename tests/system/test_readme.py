"""The commands of the README and of docs/use/ask.md that need neither a scheduler nor a server, as written there."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.commands.planted_slurm import text_of_sacct

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
ASK = (ROOT / "docs" / "use" / "ask.md").read_text()
LOG = "examples/accounting/slurm-202611.txt.gz"
BLOCKS = [block for text in (README, ASK) for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)]
COMMANDS = re.findall(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)", "\n".join(BLOCKS), re.MULTILINE)

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command that begins so in a shell, as a user does; sacct of that shell prints the example's log."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, text in {
        "jobsight": f'exec "{sys.executable}" -m jobsight_server.cli "$@"',
        "sacct": f'[ "$*" = "-aD -S now-30days --json" ] && exec zcat "{ROOT / LOG}"',
    }.items():
        (scripts / name).write_text(f"#!/bin/sh\n{text}\n")
        (scripts / name).chmod(0o755)
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": f"{scripts}:{os.environ['PATH']}"}

    def call(starts: str, more: str = "") -> str:
        [command] = [command for command in COMMANDS if command.startswith(starts)]
        done = subprocess.run(
            ["sh", "-c", f"{command} {more}"],
            cwd=tmp_path, env={**os.environ, **path, "COLUMNS": "80"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_every_command_is_run_here_or_needs_more_than_a_checkout() -> None:
    assert [command.split("#")[0].split()[:3] for command in COMMANDS] == [
        ["pip", "install", "jobsight"],  # test_install.py
        ["sacct", "-aD", "-S"],
        ["make", "demo"],  # test_demo.py
        ["make", "test"],
        ["zcat", LOG, "|"],
        ["jobsight", "import", "torque"],
        ["jobsight", "predict", "--cluster"],
        ["jobsight", "backtest", "sqlite:///jobsight.db"],
        ["curl", "-H", '"Authorization:'],  # test_predictions.py
    ]


def test_its_first_screen_has_the_report_and_both_targets() -> None:
    first, second = re.findall(r"```console\n(.*?)```", README, re.DOTALL)[:2]
    assert [line.split()[1] for line in first.splitlines()] == ["pip", "sacct"]
    assert [line.split()[1:3] for line in second.splitlines()] == [["make", "demo"], ["make", "test"]]
    assert README.index(second) < README.index("zcat")


def test_it_is_short() -> None:
    prose = re.sub(r"```.*?```|\]\([^)]*\)|<[^>]*>", "", README, flags=re.DOTALL)
    assert len(prose.split()) < 650


def test_the_report_prints_the_lines_that_it_shows(run: Run) -> None:
    assert gzip.decompress((ROOT / LOG).read_bytes()).decode() == text_of_sacct(jobs=600, others=20)
    printed = run("zcat")
    shown = README.partition("report slurm -\nstandard input")[2].partition("\n...\n")[0]
    lines = f"standard input{shown}".split("\n")
    assert len(lines) == 10
    assert [line.rstrip() for line in printed.splitlines()][:10] == lines
    assert run("sacct") == printed.replace("report.html\n", "report.html, which replaces the one before\n")


def test_its_figures_are_those_of_the_measurements() -> None:
    shown = README.partition("## How sure")[2].partition("## ")[0]
    lowered = (ROOT / "benchmarks" / "results" / "lowered.md").read_text()
    row = re.search(
        r"LANL-CM5 memory, ([\d,]+) jobs \| Jobsight \| (\S+) .*?\| (\S+) .*? of (\S+) \| (\S+) .*?\| (\S+)", lowered
    )
    assert row is not None
    jobs, share, held, of, wasted, requests = (float(figure.replace(",", "")) for figure in row.groups())
    accuracy = (ROOT / "docs" / "use" / "accuracy.md").read_text().partition("### Coverage over time")[2]
    bound = re.search(r"LANL-CM5, memory \| (\S+) \| (\S+)", accuracy)
    assert bound is not None
    for figure in (
        f"{jobs:,.0f} jobs", f"[{held:.1%}]", f"{1 - held:.1%} of them, {(1 - held) * of:.0f} jobs", f"[{wasted:.2f}]",
        f"instead of {requests:.2f}", f"{1 - share:.0%} of the requests", f"[{float(bound[1]):.0%}]",
        f"{float(bound[2]):.0%} weighted",
    ):  # fmt: skip
        assert figure.replace("%", " %") in shown


def test_old_accounting_files_give_the_forecasts_that_it_describes(run: Run) -> None:
    run("jobsight import")
    printed = run("jobsight predict").split()
    written = ASK.partition("jobsight.db\nRequest")[2].partition("\n...\n")[0]
    wanted = f"Request{written}".split()
    assert len(wanted) > 40
    assert printed[: len(wanted)] == wanted
    assert "40 jobs of 2 users" in " ".join(run("jobsight backtest").split())
    answers = json.loads(run("jobsight predict", "--json"))["predictions"]
    found = {answer["metric"]: answer for answer in answers}
    assert found["memory"]["probability"] > 0.8
    assert found["runtime"]["probability"] < 0.6
    assert found["runtime"]["value"] is not None
    assert max(found["runtime"]["last_values"]) > 1.8 * min(found["runtime"]["last_values"])
    assert (found["bandwidth"]["value"], found["bandwidth"]["reason"][:10]) == (None, "no history")
    assert all(answer["level"].startswith("user + application") for answer in answers if answer["level"])


def test_what_is_installed_leaves_the_environment_of_make_alone() -> None:
    made = re.findall(r"python3 -I -m venv (~\S+)", (ROOT / "deploy" / "README.md").read_text())
    assert len(made) == 1
    assert ".venv" not in made


def test_every_command_that_needs_the_database_names_it() -> None:
    trial = (ROOT / "deploy" / "README.md").read_text().partition("### For a trial")[2].partition("###")[0]
    commands = [*COMMANDS, *re.findall(r"^\$ ([^\n]*)|`(jobsight token [^`]+)`", trial, re.MULTILINE)]
    texts = [command if isinstance(command, str) else "".join(command) for command in commands]
    needing = [command for command in texts if re.match(r"jobsight (token|serve|import|predict) ", command)]
    assert len(needing) == 6
    assert [command for command in needing if "--database " not in command] == []
