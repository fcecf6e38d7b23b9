"""Files that a user names: regular ones are read and replaced whole, pipes are read, everything else is refused."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests import make
from tests.make import Jobsight
from tests.server.commands.test_report import record

from jobsight_server.ground.errors import UserError
from jobsight_server.storage.named_files import whole_file

JOBSIGHT = [sys.executable, "-m", "jobsight_server.cli"]


def device(place: Path) -> None:
    place.symlink_to("/dev/null")


def bound(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{os.open(place.parent, os.O_PATH)}/{place.name}")


OTHER_KINDS: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir, "a device": device, "a pipe": os.mkfifo, "a socket": bound,
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "20231115"
    file.write_text("".join(record(number=number) for number in range(12)))
    return file


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["report", "{log}", "--output", "{file}"], "x.html"),
        (["backup", "{file}", "--database", "{database}"], "x.db"),
        (["export", "jobs", "{file}", "--replace", "--database", "{database}"], "x.csv"),
        (["export", "jobs", "{file}", "--replace", "--database", "{database}"], "x.swf"),
        (["backtest", "{trace}", "--metric", "run-time", "--plot", "{file}"], "x.svg"),
        (["simulate", "{trace}", "--schedule-out", "{file}"], "x.csv"),
        (["simulate", "{trace}", "--jobs-out", "{file}"], "x.csv.gz"),
        (["import", "{log}", "--cluster", "c", "--database", "sqlite:///{file}"], "x.db"),
        (["savings", "--database", "sqlite:///{file}"], "x.db"),
    ],
)
def test_only_a_regular_file_is_written(
    command: list[str], name: str, kind: str, log: Path, migrated_file: Path, jobsight: Jobsight
) -> None:
    place = log.parent / name
    OTHER_KINDS[kind](place)
    before = place.lstat().st_mode, place.lstat().st_ino
    database = f"sqlite:///{migrated_file}"
    of = {"log": log, "file": place, "database": database, "trace": make.trace(log.parent / "t.swf")}
    shown = jobsight(*(part.format(**of) for part in command), status=1).err
    assert kind in shown
    assert str(place) in shown
    assert (place.lstat().st_mode, place.lstat().st_ino) == before
    assert not [*log.parent.glob(".unfinished*")]


def test_a_replaced_file_keeps_its_mode_and_owner(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    owner = (12345, 12346) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(file, *owner)
    file.chmod(0o604)
    with whole_file(file) as place:
        place.write_text("new")
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o604)
    assert (file.stat().st_uid, file.stat().st_gid) == owner


def test_the_unfinished_file_is_a_new_one(tmp_path: Path) -> None:
    file, other = tmp_path / "copy.db", tmp_path / "other"
    other.write_text("other")
    (tmp_path / ".unfinished.copy.db").symlink_to(other)
    file.symlink_to(other)
    with whole_file(file, 0o600) as place:
        place.write_text("new")
    assert (other.read_text(), file.read_text(), file.is_symlink()) == ("other", "new", False)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "there").symlink_to(tmp_path)
    with whole_file(tmp_path / "there" / "copy.db") as place:
        place.write_text("newer")
    assert file.read_text() == "newer"
    (tmp_path / ".unfinished.copy.db").mkdir()
    with pytest.raises(UserError, match="an older file of this name is unchanged"), whole_file(file):
        pass
    assert (tmp_path / ".unfinished.copy.db").is_dir()


def test_a_log_is_read_from_pipes(log: Path, jobsight: Jobsight) -> None:
    expected = jobsight("report", log, log, "--output", log.parent / "a.html").out
    command = f"'{sys.executable}' -m jobsight_server.cli report torque <(cat {log}) <(gzip <{log}) --output b.html"
    done = subprocess.run(["bash", "-c", command], cwd=log.parent, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    held = [[line for line in text.splitlines() if "GiB-hours" in line] for text in (expected, done.stdout)]
    assert held[0] == held[1] != []
    assert (log.parent / "b.html").exists()


@pytest.mark.parametrize("command", [["report"], ["match"], ["savings", "--config"]])
def test_a_silent_pipe_is_waited_for_and_can_be_interrupted(command: list[str], tmp_path: Path) -> None:
    place = tmp_path / "pipe"
    os.mkfifo(place)
    with subprocess.Popen([*JOBSIGHT, *command, str(place)], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waits:
        assert waits.stderr is not None
        assert waits.stderr.readline() == f"jobsight: waiting for data from the pipe {place}\n"
        waits.send_signal(signal.SIGINT)
        assert waits.wait(60) == 130


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["import", "--cluster", "c"],
        ["backtest", "--metric", "run-time"],
        ["simulate"],
        ["match"],
        ["savings", "--config"],
    ],
)
def test_everything_else_is_refused_at_once(
    command: list[str], kind: str, tmp_path: Path, sqlite_engine: Engine, jobsight: Jobsight
) -> None:
    if kind == "a pipe" and command[0] in ("report", "match", "savings"):
        return  # read
    place = tmp_path / "place"
    OTHER_KINDS[kind](place)
    database = ["--database", str(sqlite_engine.url)] if command[0] == "import" else []
    assert kind.removeprefix("a ") in "".join(jobsight(*command, place, *database, status=1))
