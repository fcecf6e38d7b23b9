"""The TORQUE hooks, run as pbs_mom runs them: a real agent command, a real spool, and commands that misbehave."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from jobsight_agent.hooks import collect
from jobsight_agent.reading import Mark, Reading

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "deploy" / "torque" / "mark-job"
EVENTS = {"prologue": "start", "prologue.parallel": "start", "epilogue": "end", "epilogue.parallel": "end"}
JOB = "1234[7].head.example.org"


def executable(file: Path, text: str) -> Path:
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


def real_agent(tmp_path: Path) -> Path:
    """The console script, as an installation would make it."""
    run = f'PYTHONPATH="{ROOT / "agent"}" exec "{sys.executable}" -m jobsight_agent.cli "$@"\n'
    return executable(tmp_path / "jobsight-agent", run)


def install(tmp_path: Path, name: str, agent: Path, path: str | None = None) -> Path:
    """The hook in a ``mom_priv`` of its own, set at its top as an administrator would set it."""
    spool = tmp_path / "spool"
    (spool / "marks").mkdir(parents=True, exist_ok=True)
    config = tmp_path / "agent.toml"
    config.write_text(f'spool = "{spool}"\n')
    wanted = {"AGENT": agent, "CONFIG": config} | ({"PATH": path} if path else {})
    lines = HOOK.read_text().splitlines()
    for setting, value in wanted.items():
        places = [number for number, line in enumerate(lines) if line.startswith(f"{setting}=")]
        assert len(places) == 1, f"{setting} must be set in one place"
        lines[places[0]] = f"{setting}={value}"
    folder = tmp_path / "mom_priv"
    folder.mkdir(exist_ok=True)
    hook = folder / name
    hook.write_text("\n".join(lines) + "\n")
    hook.chmod(0o500)
    return hook


def run_hook(hook: Path, job: str | None = JOB) -> float:
    """Runs the hook with pipes for its output, as a caller that waits for their end would; the seconds it took."""
    begin = time.monotonic()
    arguments = [] if job is None else [job, "somebody", "users", "name", "99", "walltime=60", "batch", ""]
    done = subprocess.run([hook, *arguments], capture_output=True, timeout=30, check=False)
    took = time.monotonic() - begin
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return took


def marks(tmp_path: Path) -> list[Reading]:
    """What the agent will find; there must be nothing else."""
    folder = tmp_path / "spool" / "marks"
    found, damaged = collect(folder)
    assert damaged == []
    assert {file for file, _ in found} == set(folder.iterdir())
    return [reading for _, reading in found]


def test_syntax_is_posix() -> None:
    shell = shutil.which("dash") or "sh"
    subprocess.run([shell, "-n", HOOK], check=True)
    assert os.access(HOOK, os.X_OK)


@pytest.mark.parametrize(("name", "event"), EVENTS.items())
def test_reading_is_marked_before_the_hook_returns(tmp_path: Path, name: str, event: str) -> None:
    before = time.time()
    run_hook(install(tmp_path, name, real_agent(tmp_path)))
    (mark,) = marks(tmp_path)
    assert mark.mark == Mark(JOB, event)
    assert before <= mark.time <= time.time()
    assert mark.memory_used_bytes


def test_hook_is_found_by_its_name_only(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue", real_agent(tmp_path))
    run_hook(hook.rename(hook.with_name("something-else")))
    assert marks(tmp_path) == []


@pytest.mark.parametrize("job", [None, "", "--help"])
def test_without_a_job_id_nothing_happens(tmp_path: Path, job: str | None) -> None:
    assert run_hook(install(tmp_path, "prologue", real_agent(tmp_path)), job) < 1
    assert marks(tmp_path) == []


def test_job_id_is_never_read_as_shell(tmp_path: Path) -> None:
    job = "1.head; touch owned $(touch owned) `touch owned` '\"*"
    hook = install(tmp_path, "epilogue", real_agent(tmp_path))
    run_hook(hook, job)
    (mark,) = marks(tmp_path)
    assert mark.mark == Mark(job, "end")
    assert not list(tmp_path.rglob("owned"))
    assert not Path("owned").exists()


def test_missing_command_does_not_hold_the_job(tmp_path: Path) -> None:
    assert run_hook(install(tmp_path, "prologue", tmp_path / "nowhere")) < 1


def test_failing_command_does_not_hold_or_fail_the_job(tmp_path: Path) -> None:
    agent = executable(tmp_path / "agent", "echo trouble; echo more >&2; exit 3\n")
    assert run_hook(install(tmp_path, "prologue", agent)) < 1.5


def test_spool_that_is_missing_does_not_hold_or_fail_the_job(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue", real_agent(tmp_path))
    shutil.rmtree(tmp_path / "spool")
    assert run_hook(hook) < 2.5


def path_without(tmp_path: Path, left_out: set[str]) -> str:
    """A directory of links to what the hook may call, but for what this system is to lack."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"sleep", "id", "cat", "timeout", "setpriv", "logger", "sh"} - left_out:
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return str(folder)


HANGING = {
    "sleeps": 'echo $$ >"$0.pid"; exec sleep 60\n',
    "ignores SIGTERM": "trap '' TERM; echo $$ >\"$0.pid\"; while :; do sleep 1; done\n",
    "leaves a child that holds its output": 'echo $$ >"$0.pid"; sleep 5 & wait\n',
}


@pytest.mark.parametrize("left_out", [set(), {"timeout", "setpriv", "logger"}], ids=["all tools", "bare system"])
@pytest.mark.parametrize("kind", HANGING)
def test_hanging_command_is_left_after_the_limit(tmp_path: Path, kind: str, left_out: set[str]) -> None:
    agent = executable(tmp_path / "agent", "PATH=/usr/bin:/bin\n" + HANGING[kind])
    took = run_hook(install(tmp_path, "prologue", agent, path_without(tmp_path, left_out)))
    assert 1.9 <= took < 3.5
    pid = int((tmp_path / "agent.pid").read_text())
    deadline = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(pid), "the command outlived its limit"


def is_running(pid: int) -> bool:
    """Whether the process exists and is not merely a zombie that nobody has reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_environment_cannot_choose_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of a hook's environment may come from the job's owner, and the hook runs as root."""
    evil = executable(tmp_path / "evil", f'touch "{tmp_path}/owned"\n')
    for name in ("AGENT", "CONFIG", "AGENT_USER", "LIMIT_S", "timeout", "late", "JOBSIGHT_AGENT"):
        monkeypatch.setenv(name, str(evil))
    run_hook(install(tmp_path, "prologue", real_agent(tmp_path)))
    assert len(marks(tmp_path)) == 1
    assert not (tmp_path / "owned").exists()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_root_marks_as_the_agents_user() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        folder = Path(name)
        folder.chmod(0o755)
        seen = folder / "agent.ids"
        seen.touch()
        seen.chmod(0o666)
        agent = executable(
            folder / "agent", 'id -u >"$0.ids"; id -G >>"$0.ids"; grep CapEff /proc/self/status >>"$0.ids"\n'
        )
        hook = install(folder, "prologue", agent)
        user = pwd.getpwnam("nobody")
        hook.chmod(0o700)
        group = grp.getgrgid(user.pw_gid).gr_name
        hook.write_text(
            hook.read_text()
            .replace("AGENT_USER=jobsight", f"AGENT_USER={user.pw_name}")
            .replace('--regid="$AGENT_USER"', f"--regid={group}")
        )
        run_hook(hook)
        assert seen.read_text().split() == [str(user.pw_uid), str(user.pw_gid), "CapEff:", "0" * 16]
