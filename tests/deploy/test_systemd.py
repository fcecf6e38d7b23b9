"""The units, judged by systemd's own tools where they are installed, and held to the programs that they start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from jobsight_agent import cli as agent_cli
from jobsight_server import cli as server_cli

SYSTEMD = Path(__file__).parents[2] / "deploy" / "systemd"
UNITS = ("jobsight-agent.service", "jobsight-server.service")
PROGRAMS = {"jobsight-agent": agent_cli.main, "jobsight": server_cli.main}


def needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")


def settings_of(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", (SYSTEMD / unit).read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def startable(unit: str, folder: Path) -> Path:
    """The unit with a command that exists here, since Jobsight need not be installed under /opt."""
    text, count = re.subn(r"^ExecStart=\S+", "ExecStart=/bin/true", (SYSTEMD / unit).read_text(), flags=re.MULTILINE)
    assert count == 1
    file = folder / unit
    file.write_text(text)
    return file


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_unit(tmp_path: Path, unit: str) -> None:
    verify = ["systemd-analyze", "verify", "--man=no", str(startable(unit, tmp_path))]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    about_ours = [line for line in done.stderr.splitlines() if unit in line]
    assert (done.returncode, about_ours) == (0, [])


@needs("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_exposure_is_low(tmp_path: Path, unit: str) -> None:
    """systemd's own scale from 0 (closed) to 10; what it calls OK ends at 5."""
    unit_file = str(startable(unit, tmp_path))
    judge = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit_file]
    done = subprocess.run(judge, capture_output=True, text=True, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit that is not loaded")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("unit", UNITS)
def test_unit_starts_a_command_that_exists(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    (start,) = settings_of(unit)["ExecStart"]
    program, command, *rest = shlex.split(start)
    with pytest.raises(SystemExit) as end:
        PROGRAMS[Path(program).name]([command, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert [flag for flag in rest if flag.startswith("--") and flag not in shown] == []


def test_agent_still_sees_the_node() -> None:
    """Hardening that hides /proc/stat or the network would leave a service that measures nothing."""
    found = settings_of("jobsight-agent.service")
    assert found["ReadWritePaths"] == ["/var/spool/jobsight"]
    assert not {"ProcSubset", "PrivateNetwork", "PrivateUsers", "InaccessiblePaths"} & set(found)


def made_in(folder: Path, tool: str, source: str, place: str) -> None:
    target = folder / "etc" / place
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(SYSTEMD / source, target / "jobsight.conf")
    create = ["--create"] if tool == "systemd-tmpfiles" else []
    subprocess.run([tool, f"--root={folder}", *create, "jobsight.conf"], capture_output=True, check=True)


@needs("systemd-sysusers")
def test_user_is_made(tmp_path: Path) -> None:
    made_in(tmp_path, "systemd-sysusers", "jobsight.sysusers", "sysusers.d")
    (line,) = (tmp_path / "etc" / "passwd").read_text().splitlines()
    name, *_, home, shell = line.split(":")
    assert (name, home) == ("jobsight", "/var/lib/jobsight")
    assert shell.endswith("nologin")


@needs("systemd-sysusers")
@needs("systemd-tmpfiles")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the directories another user's")
def test_spool_is_the_agents_alone(tmp_path: Path) -> None:
    made_in(tmp_path, "systemd-sysusers", "jobsight.sysusers", "sysusers.d")
    uid = int((tmp_path / "etc" / "passwd").read_text().split(":")[2])
    made_in(tmp_path, "systemd-tmpfiles", "jobsight.tmpfiles", "tmpfiles.d")
    spool = (tmp_path / "var" / "spool" / "jobsight").stat()
    assert (spool.st_mode & 0o7777, spool.st_uid) == (0o750, uid)
