"""A small demo as a user runs it: tables, then agents that go on in real time, until Ctrl-C."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.processes import children, is_running

from demo import clear, progress_of
from jobsight_server.ground.errors import UserError
from site_run import Site, free_address, wait_until

ROOT = Path(__file__).parents[2]


def test_without_a_terminal_there_is_a_plain_line_every_5_per_cent(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_of("Replaying", Console(file=io.StringIO())) as show:
        for step in range(1001):
            show(step / 1000, step)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"Replaying: {percent} %, {percent * 10:,} readings" for percent in range(0, 101, 5)]


def test_a_directory_that_no_demo_made_is_not_erased(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), record=True)
    clear(tmp_path / "new", console)
    (tmp_path / "new" / "accounting").mkdir()
    (tmp_path / "new" / "jobsight.db").touch()
    assert console.export_text() == ""
    clear(tmp_path / "new", console)
    assert not list((tmp_path / "new").iterdir())
    assert "Erasing the site of the last demo" in console.export_text()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").touch()
    with pytest.raises(UserError, match=r"work is not the site of a demo; choose another --directory"):
        clear(tmp_path / "work", console)
    with pytest.raises(UserError, match=r"thesis\.tex is not the site"):
        clear(tmp_path / "work" / "thesis.tex", console)
    assert (tmp_path / "work" / "thesis.tex").exists()


@pytest.mark.slow
def test_a_demo_shows_its_account_and_stays_alive_until_it_is_interrupted(tmp_path: Path) -> None:
    address, directory, output = free_address(), tmp_path / "site", tmp_path / "output"
    command = [sys.executable, "examples/demo.py", "--weeks", "0.2", "--nodes", "6", "--listen", address]
    # As a shell starts its background jobs.
    signals = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    (directory / "accounting").mkdir(parents=True)
    (directory / "truth.csv").write_text("of the last demo")
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, "--directory", str(directory)], cwd=ROOT, stdout=file, stderr=file, **signals
        )
    try:
        wait_until(
            lambda: process.poll() is not None or "Ctrl-C ends the site" in output.read_text(), 300, output.read_text
        )
        text = output.read_text()
        assert process.poll() is None, text
        everyone = [process.pid, *children(process.pid, recursive=True)]
        assert len(everyone) > 4  # the demo, the server's roles, the replay
        for name in ("Jobsight", "history", "sliding-window", "weighted", "locality", "exponential"):
            assert re.search(rf"^ +{name} +\d\.\d\d \(\d+\s%\)", text, re.MULTILINE), name
        assert re.search(r"requested by users +[\d,]+ +100\s%", text)
        assert re.search(r"Reserving as recommended would have (freed|reserved another)\s[\d,.]+\s\(", text)
        assert re.search("[56] of 6 nodes are up", text)
        assert "lost:" not in text
        assert text.startswith("Erasing the site of the last demo")
        assert f"`kill {process.pid}` from another terminal" in " ".join(text.split())
        site = Site.running(directory, address)
        [(cluster, user)] = re.findall(
            r"A user with a long history: http://[^/]+/user\?cluster=(\w+)&name=(\w+)$", text, re.M
        )
        shown = site.api("user", name=user, cluster=cluster)["metrics"]
        assert min(answer["user_jobs"] for answer in shown) > 0
        before = site.counts()["samples_stored"]
        wait_until(lambda: site.counts()["samples_stored"] > before, 150, lambda: "no agent sends")
        assert site.api("now")["nodes"]["up"] >= 5
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert output.read_text().rstrip().endswith("Stopping.")
        assert not [pid for pid in everyone if is_running(pid)]
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
