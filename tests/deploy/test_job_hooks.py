"""The job hooks, run as schedulers run them: a real agent, a real spool, and commands that misbehave."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent.collector import wait_for
from tests.processes import is_running

from jobsight_agent.hooks import collect
from jobsight_agent.reading import Mark, Reading, from_record

ROOT = Path(__file__).parents[2]
HOOK = ROOT / "deploy" / "hooks" / "mark-job"
EVENTS = {"prologue": "start", "prologue.parallel": "start", "epilogue": "end", "epilogue.parallel": "end"}
JOB = "1234[7].head.example.org"


def executable(file: Path, text: str) -> Path:
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return file


def me() -> tuple[str, str]:
    """The user and group that run the tests, the only ones that this machine needs."""
    user = pwd.getpwuid(os.geteuid())
    return user.pw_name, grp.getgrgid(user.pw_gid).gr_name


def install(tmp_path: Path, name: str, python: Path | str = sys.executable, **other: object) -> Path:
    """The hook in a ``mom_priv`` of its own, set at its top as an administrator would set it."""
    spool = tmp_path / "spool"
    (spool / "marks").mkdir(parents=True, exist_ok=True)
    config = tmp_path / "agent.toml"
    config.write_text("")
    user, group = me()
    wanted = {"PYTHON": python, "CONFIG": config, "SPOOL": spool, "AGENT_USER": user, "AGENT_GROUP": group, **other}
    lines = HOOK.read_text().splitlines()
    for setting, value in wanted.items():
        places = [number for number, line in enumerate(lines) if line.startswith(f"{setting}=")]
        assert len(places) == 1, f"{setting} must be set in one place"
        lines[places[0]] = f"{setting}={shlex.quote(str(value))}"
    folder = tmp_path / "mom_priv"
    folder.mkdir(exist_ok=True)
    hook = folder / name
    hook.write_text("\n".join(lines) + "\n")
    hook.chmod(0o700)
    return hook


def run_hook(hook: Path, job: str | None = JOB, says: str = "", **environment: str) -> float:
    """Run the hook with pipes for its output, as a caller that waits for their end would; the seconds it took."""
    begin = time.monotonic()
    arguments = [] if job is None else [job, "somebody", "users", "name", "99", "walltime=60", "batch", ""]
    done = subprocess.run(
        [hook, *arguments], capture_output=True, timeout=90, check=False, env={**os.environ, **environment}
    )
    took = time.monotonic() - begin
    assert (done.returncode, done.stdout) == (0, b"")
    assert says in done.stderr.decode()
    assert says or not done.stderr
    return took


@contextlib.contextmanager
def running_agent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An agent on the hook's spool that reads by itself once an hour; its server is away."""
    (tmp_path / "token").write_text("secret")
    command = [
        sys.executable, "-m", "jobsight_agent.cli", "run", "--spool", str(tmp_path / "spool"), "--token-file",
        str(tmp_path / "token"), "--server", "http://127.0.0.1:9", "--interval", "3600", "--batch-age-s", "3600",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)
    try:
        wait_for(lambda: (tmp_path / "spool" / "agent.socket").exists() and noted(tmp_path))
        yield process
    finally:
        process.kill()
        process.wait()


def noted(tmp_path: Path) -> list[Reading]:
    """Readings in the agent's journal."""
    return [
        from_record(json.loads(line))
        for file in (tmp_path / "spool").glob("open-*.jsonl")
        for line in file.read_text().splitlines()
        if line
    ]


def marked(tmp_path: Path) -> list[Reading]:
    return [reading for reading in noted(tmp_path) if reading.mark]


def marks(tmp_path: Path) -> list[Reading]:
    """Marks for the agent; asserts that there are no other files."""
    folder = tmp_path / "spool" / "marks"
    found, damaged = collect(folder)
    assert damaged == []
    assert {file for file, _ in found} == set(folder.iterdir())
    return [reading for _, reading in found]


@pytest.mark.parametrize(("name", "event"), EVENTS.items())
def test_the_agent_takes_the_reading_before_the_hook_returns(tmp_path: Path, name: str, event: str) -> None:
    hook = install(tmp_path, name, LIMIT_S=20)
    with running_agent(tmp_path):
        before = time.time()
        run_hook(hook)
        after = time.time()
        (reading,) = marked(tmp_path)
    assert reading.mark == Mark(JOB, event)
    assert before <= reading.time <= after
    assert marks(tmp_path) == []


@pytest.mark.parametrize("end", ["was never there", "was killed"])
def test_without_an_agent_the_hook_takes_the_reading(tmp_path: Path, end: str) -> None:
    hook = install(tmp_path, "prologue", LIMIT_S=20)
    if end == "was killed":
        with running_agent(tmp_path):
            pass
        assert (tmp_path / "spool" / "agent.socket").exists()
    run_hook(hook)
    (mark,) = marks(tmp_path)
    assert mark.mark == Mark(JOB, "start")


def test_an_agent_that_is_killed_before_it_answers_costs_no_mark(tmp_path: Path) -> None:
    hook = install(tmp_path, "epilogue", LIMIT_S=20)
    with running_agent(tmp_path) as agent:
        agent.send_signal(signal.SIGSTOP)
        waiting = subprocess.Popen([hook, JOB])
        time.sleep(0.3)
        agent.kill()
        assert waiting.wait(90) == 0
    (mark,) = marks(tmp_path)
    assert mark.mark == Mark(JOB, "end")


def test_an_agent_that_hangs_holds_the_hook_for_the_limit_and_marks_late(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue", LIMIT_S=1)
    with running_agent(tmp_path) as agent:
        agent.send_signal(signal.SIGSTOP)
        assert 0.9 <= run_hook(hook) < 60
        agent.send_signal(signal.SIGCONT)
        wait_for(lambda: marked(tmp_path))
        assert marked(tmp_path)[0].mark == Mark(JOB, "start")


def test_no_mark_is_lost_on_a_busy_node(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue", LIMIT_S=600)  # so that each returns once the agent has answered
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
    try:
        with running_agent(tmp_path):
            hooks = [subprocess.Popen([hook, f"{number}.head"]) for number in range(40)]
            assert [process.wait(600) for process in hooks] == [0] * 40
            found = [reading.mark.job for reading in marked(tmp_path) if reading.mark]
            assert sorted(found) == sorted(f"{number}.head" for number in range(40))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert marks(tmp_path) == []


def test_a_call_costs_little(tmp_path: Path) -> None:
    """CPU time: half of that of an interpreter with the agent's imports, which the machine slows down as much."""
    hook = install(tmp_path, "prologue")
    interpreter = [sys.executable, "-c", "import jobsight_agent.cli"]
    with running_agent(tmp_path):
        run_hook(hook)
        pairs = [
            (cpu_s(lambda: run_hook(hook)), cpu_s(lambda: subprocess.run(interpreter, check=True))) for _ in range(10)
        ]
    costs_s, imports_s = zip(*pairs, strict=True)
    assert min(costs_s) < 0.5 * min(imports_s), pairs


def cpu_s(call: Callable[[], object]) -> float:
    """Return the CPU seconds of the programs that the call runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_under_another_name_it_marks_nothing_and_says_so(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue")
    run_hook(hook.rename(hook.with_name("something-else")), says="something-else marks nothing: install it as prologue")
    assert marks(tmp_path) == []


@pytest.mark.parametrize("job", [None, "", "--help"])
def test_without_a_job_id_nothing_happens(tmp_path: Path, job: str | None) -> None:
    run_hook(install(tmp_path, "prologue"), job, says="is a job's id")
    assert marks(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "arguments", "environment", "mark"),
    [
        ("prolog", [], {"SLURM_JOB_ID": "4711", "SLURM_JOBID": "4711"}, Mark("4711", "start")),
        ("epilog", [], {"SLURM_JOB_ID": "4711", "JOB_ID": "1"}, Mark("4711", "end")),
        ("prolog", [], {"SGE_ROOT": "/opt/sge", "JOB_ID": "12", "SGE_TASK_ID": "undefined"}, Mark("12", "start")),
        ("epilog", [], {"SGE_ROOT": "/opt/sge", "JOB_ID": "12", "SGE_TASK_ID": "3"}, Mark("12.3", "end")),
        # A job's owner sets variables of another scheduler.
        ("epilog", [], {"SGE_ROOT": "/opt/sge", "JOB_ID": "12", "SLURM_JOB_ID": "9"}, Mark("12", "end")),
        ("epilogue", [JOB], {"SGE_ROOT": "/opt/sge", "JOB_ID": "12", "SLURM_JOB_ID": "9"}, Mark(JOB, "end")),
        ("execjob_begin", ["7[2].head"], {"PBS_JOBID": "9"}, Mark("7[2].head", "start")),
        ("execjob_epilogue", ["7[2].head"], {}, Mark("7[2].head", "end")),
        ("execjob_end", ["7[2].head"], {}, Mark("7[2].head", "end")),
    ],
)
def test_each_scheduler_names_its_job(
    tmp_path: Path, name: str, arguments: list[str], environment: dict[str, str], mark: Mark
) -> None:
    hook = install(tmp_path, "mark-job", LIMIT_S=20)
    link = hook.with_name(name)
    link.symlink_to("mark-job")
    clean = {"PATH": os.environ["PATH"], **environment}
    done = subprocess.run([link, *arguments], capture_output=True, timeout=90, check=False, env=clean)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert [reading.mark for reading in marks(tmp_path)] == [mark]


@pytest.mark.parametrize("environment", [{}, {"JOB_ID": "12"}, {"SLURM_JOB_ID": ""}, {"SLURM_JOB_ID": "-x"}])
def test_without_a_job_in_the_environment_nothing_happens(tmp_path: Path, environment: dict[str, str]) -> None:
    run_hook(install(tmp_path, "prolog"), None, says="is a job's id", **environment)
    assert marks(tmp_path) == []


def test_the_links_of_each_scheduler_lead_to_the_script() -> None:
    for link in ("torque/mark-job", "slurm/prolog", "slurm/epilog", "gridengine/prolog", "gridengine/epilog"):
        assert (HOOK.parents[1] / link).resolve() == HOOK
        assert os.access(HOOK.parents[1] / link, os.X_OK)


PBS = """
EXECJOB_BEGIN, EXECJOB_EPILOGUE, EXECJOB_END, LOG_WARNING = 1, 2, 4, 8
class job: id = "7[2].head"
class current:
    type, job = {event}, job
    def accept(): print("accepted")
event = lambda: current
logmsg = lambda level, text: print(level, text)
"""


@pytest.mark.parametrize(
    ("number", "name", "kind"),
    [(1, "execjob_begin", "start"), (2, "execjob_epilogue", "end"), (4, "execjob_end", "end")],
)
def test_the_pbs_hook_calls_the_script(tmp_path: Path, number: int, name: str, kind: str) -> None:
    install(tmp_path, name, LIMIT_S=20)
    assert run_pbs_hook(tmp_path, number, 60) == "accepted\n"
    assert [reading.mark for reading in marks(tmp_path)] == [Mark("7[2].head", kind)]


@pytest.mark.exhaustive
def test_the_pbs_hook_accepts_the_job_whatever_the_script_does(tmp_path: Path) -> None:
    install(tmp_path, "execjob_begin").unlink()
    assert "No such file" in (said := run_pbs_hook(tmp_path, 1))
    assert said.endswith("accepted\n")
    executable(tmp_path / "mom_priv" / "execjob_begin", "exec sleep 30\n")
    began = time.monotonic()
    assert "timed out" in (said := run_pbs_hook(tmp_path, 1))
    assert said.endswith("accepted\n")
    assert time.monotonic() - began < 25  # it would sleep for 30 s


def run_pbs_hook(tmp_path: Path, event: int, limit_s: int = 3) -> str:
    """Run the hook with a module ``pbs`` like pbs_python's; return its log and actions."""
    (tmp_path / "pbs.py").write_text(PBS.replace("{event}", str(event)))
    hook = tmp_path / "hook.py"
    text = (ROOT / "deploy" / "pbs" / "jobsight_hook.py").read_text()
    text = text.replace('FOLDER = "/usr/local/lib/jobsight"', f'FOLDER = "{tmp_path}/mom_priv"')
    hook.write_text(text.replace("LIMIT_S = 3 ", f"LIMIT_S = {limit_s} "))
    done = subprocess.run([sys.executable, hook], capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_job_id_is_never_read_as_shell(tmp_path: Path) -> None:
    job = "1.head; touch owned $(touch owned) `touch owned` '\"*"
    run_hook(install(tmp_path, "epilogue", LIMIT_S=20), job)
    (mark,) = marks(tmp_path)
    assert mark.mark == Mark(job, "end")
    assert not list(tmp_path.rglob("owned"))
    assert not Path("owned").exists()


@pytest.mark.parametrize("script", ["", "echo trouble; echo more >&2; exit 3\n"])
def test_a_command_that_is_missing_or_fails_does_not_hold_or_fail_the_job(tmp_path: Path, script: str) -> None:
    agent = executable(tmp_path / "agent", script) if script else tmp_path / "nowhere"
    assert run_hook(install(tmp_path, "prologue", agent, LIMIT_S=60)) < 50


def test_spool_that_is_missing_does_not_hold_or_fail_the_job(tmp_path: Path) -> None:
    hook = install(tmp_path, "prologue", LIMIT_S=60)
    shutil.rmtree(tmp_path / "spool")
    assert run_hook(hook) < 50


def path_without(tmp_path: Path, left_out: set[str]) -> str:
    """A directory of links to the commands that the hook may call, without ``left_out``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {"sleep", "id", "cat", "setpriv", "logger", "sh", "env"} - left_out:
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return str(folder)


HANGING = {
    "sleeps": 'echo $$ >"$0.pid"; exec sleep 60\n',
    "ignores SIGTERM": "trap '' TERM; echo $$ >\"$0.pid\"; while :; do sleep 1; done\n",
    "leaves a child that holds its output": 'echo $$ >"$0.pid"; sleep 30 & wait\n',
}


@pytest.mark.parametrize("left_out", [set(), {"logger"}], ids=["all tools", "bare system"])
@pytest.mark.parametrize("kind", HANGING)
def test_a_hanging_command_is_abandoned_after_the_limit(tmp_path: Path, kind: str, left_out: set[str]) -> None:
    agent = executable(tmp_path / "agent", "PATH=/usr/bin:/bin\n" + HANGING[kind])
    took = run_hook(install(tmp_path, "prologue", agent, PATH=path_without(tmp_path, left_out)))
    assert 1.9 <= took < 25  # the limit is 2 s, and what hangs does so for at least 30
    pid = int((tmp_path / "agent.pid").read_text())
    wait_for(lambda: not is_running(pid))


def test_modules_in_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("posix", "_socket", "jobsight_agent", "json"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(9)\n")
    hook = install(tmp_path, "prologue", LIMIT_S=20)
    monkeypatch.chdir(tmp_path)
    run_hook(hook)
    assert len(marks(tmp_path)) == 1


def recorder(folder: Path) -> tuple[Path, Path]:
    """A command in place of Python that records its user and environment."""
    seen = folder / "agent.ids"
    seen.touch()
    seen.chmod(0o666)
    command = 'id -u >"$0.ids"; id -G >>"$0.ids"; grep CapEff /proc/self/status >>"$0.ids"; env >>"$0.ids"\n'
    return executable(folder / "agent", command), seen


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_root_marks_as_the_agents_user(open_directory: Path) -> None:
    agent, seen = recorder(open_directory)
    user = pwd.getpwnam("nobody")
    group = grp.getgrgid(user.pw_gid).gr_name
    run_hook(install(open_directory, "prologue", agent, AGENT_USER=user.pw_name, AGENT_GROUP=group), SECRET="kept")
    ids, _, environment = seen.read_text().partition("CapEff:")
    assert ids.split() == [str(user.pw_uid), str(user.pw_gid)]
    assert environment.split()[0] == "0" * 16
    assert {line.partition("=")[0] for line in environment.splitlines()[1:]} <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("lack", ["no such user", "no setpriv"])
def test_root_never_marks_as_root_because_it_cannot_be_another(open_directory: Path, lack: str) -> None:
    agent, seen = recorder(open_directory)
    if lack == "no such user":
        hook = install(open_directory, "prologue", agent, AGENT_USER="jobsight-is-no-user", LIMIT_S=60)
    else:
        hook = install(open_directory, "prologue", agent, PATH=path_without(open_directory, {"setpriv"}), LIMIT_S=60)
    assert run_hook(hook) < 50
    assert seen.read_text() == ""
