"""The command `jobsight` itself, whatever the command after it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobsight_agent.cli import main as agent
from jobsight_server.cli import all_commands, main

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def status_and_errors(module: str, arguments: list[str], place: Path, stdout: int) -> tuple[int, str]:
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300, cwd=place)
    os.close(stdout)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "module", "commands"),
    [
        ("jobsight", "jobsight_server.cli", ("--help", "--version", "report --help", "report log")),
        ("jobsight-agent", "jobsight_agent.cli", ("--help", "status --spool .")),
        ("jobsight_papers", "jobsight_papers", ("--help", "ranking --help")),
    ],
)
def test_what_cannot_be_printed_is_an_error_and_nobody_reading_on_is_none(
    name: str, module: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    """Parsers, consoles and ``print`` alike; the report prints more than a buffer holds."""
    shutil.copy(ROOT / "examples/accounting/20261101", tmp_path / "log")
    for command in commands:
        read, write = os.pipe()
        os.close(read)
        status, errors = status_and_errors(module, command.split(), tmp_path, write)
        assert (status, "output" in errors, "Traceback" in errors) == (141, False, False)
        status, errors = status_and_errors(module, command.split(), tmp_path, os.open("/dev/full", os.O_WRONLY))
        assert (status, "Traceback" in errors) == (1, False)
        assert errors.splitlines()[-1] == f"{name}: standard output cannot be written: No space left on device"


def test_a_closed_output_is_as_none() -> None:
    command = f"{sys.executable} -m jobsight_server.cli --version >&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


AGENT = ("run", "job-start", "job-end", "status", "resend", "replay")


@pytest.mark.systems
@pytest.mark.parametrize("name", [*all_commands(), *AGENT])
def test_the_manual_page_and_the_completion_have_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`python docs/manual.py` writes them; the agent has no completion."""
    program = "jobsight" if name in all_commands() else "jobsight-agent"
    with pytest.raises(SystemExit):
        (main if name in all_commands() else agent)([name, "--help"])
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", capsys.readouterr().out))
    page = (DEPLOY / f"man/{program}.1").read_text().replace("\\-", "-")
    section = page.partition(f".SH {program} {name}\n".upper())[2].partition(".SH ")[0]
    assert {option for option in options if option not in section} == set()
    if name in AGENT:
        return
    source = f"source {DEPLOY / 'completions/jobsight'}; COMP_WORDS=(jobsight {name} --) COMP_CWORD=2; _jobsight"
    done = subprocess.run(
        ["bash", "-c", f'{source}; printf "%s\\n" "${{COMPREPLY[@]}}"'], capture_output=True, text=True, timeout=60
    )
    assert (set(done.stdout.split()), done.stderr) == (options, "")
