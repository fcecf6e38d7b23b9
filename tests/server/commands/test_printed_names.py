"""Names with characters that command a terminal, or hide others: commands print them with escapes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.text import Text
from sqlalchemy import Engine
from tests.server.commands.test_report import record

from jobsight_server.cli import main
from jobsight_server.command_line.terminal import Terminal

ODD = "\x85\x9b2J\u061c\u200b\u200e\u200f\u2028\u2029\u202e\u2066\u2069\ufeff\U000e0041"
"""C1 controls, controls of direction, separators and formats of no width."""


@pytest.fixture
def database(sqlite_engine: Engine, tmp_path: Path) -> Engine:
    """Jobs of users and applications with such names."""
    log = tmp_path / "20231115"
    names = [(f"ann{odd}", f"mesh{odd}x") for odd in ODD]
    lines = (
        record(number=len(names) * number + place, user=user, name=name, gb=2 if number % 5 else 11)
        for number in range(12)
        for place, (user, name) in enumerate(names)
    )
    log.write_text("".join(lines))
    assert main(["import", str(log), "--cluster", "c", "--database", str(sqlite_engine.url)]) == 0
    return sqlite_engine


@pytest.mark.parametrize(
    "command",
    [
        ["report", "{log}", "--output", "{page}"],
        ["savings"],
        ["savings", "--by", "application"],
        ["savings", "--json"],
        ["seff", "1.server", "3.server"],
        ["mail", "--preview", "ann\u202e"],
        ["import", "--list"],
        ["predict", "--user", "ann\u202e"],
        ["predict", "--user", "absent\x1b]0;x\x07\x9b\u202e"],
        ["savings", "--cluster", "absent\x1b\x9b\u202e"],
        ["backup", "{page}\x9b\u202e"],
    ],
)
def test_no_command_prints_them_as_they_are(
    command: list[str], database: Engine, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = [part.format(log=tmp_path / "20231115", page=tmp_path / "x") for part in command]
    main([*named, *(["--database", str(database.url)] if command[0] != "report" else [])])
    shown = "".join(capfd.readouterr())
    assert shown
    assert {character for character in shown if not character.isprintable()} <= {"\n"}


def test_on_a_terminal_only_our_own_styles_remain(database: Engine) -> None:
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "jobsight_server.cli", "savings", "--database", str(database.url)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    running = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    shown = b""
    while piece := _read(ours):
        shown += piece
    os.close(ours)
    assert running.wait(60) == 0
    printed = re.sub(r"\x1b\[[0-9;]*m|\r\n", "", shown.decode())
    assert "\x1b[" in shown.decode()
    assert r"ann\u202e" in printed
    assert printed.isprintable()


def test_a_stored_escape_sequence_is_shown_in_our_style() -> None:
    shown = StringIO()
    console = Terminal(file=shown, force_terminal=True, highlight=False, color_system="standard")
    console.print(Text("a\x1b[2Kb", style="bold"), "c\x9bd")
    assert re.sub(r"\x1b\[[0-9;]*m", "|", shown.getvalue()).split() == [r"|a\x1b[2Kb|", r"c\u009bd"]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other side is closed
        return b""
