"""The command `jobsight` itself, whatever the command after it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobsight_agent.cli import main as agent
from jobsight_server.cli import all_commands, main

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_nobody_reads_on(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "jobsight_server.cli", *arguments]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


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
