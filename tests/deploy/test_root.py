"""What root runs of the deployment, where other accounts had a hand: directories, environments, links in the spool.

A node of its own: a mount namespace with its own /etc, /opt, /run, /usr/local/lib and /var/spool, where the installer
makes the real user `jobsight`.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from jobsight_server.cli import main
from jobsight_server.setup.node_archive import node_archive
from jobsight_server.setup.places import Places
from jobsight_server.setup.schedulers.scheduler import SchedulerSetup

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs root and mount namespaces",
)
MADE = """
set -e
cp -a /etc/. "$1"
mount --bind "$1" /etc
for place in /opt /run /usr/local/lib /var/spool; do mount -t tmpfs none $place; done
echo ready
exec sleep 3600
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as root sees it, and its archive."""

    process: int
    archive: Path

    def run(self, *command: str | Path, status: int = 0, **environment: str) -> str:
        inside = ["nsenter", "-t", str(self.process), "-m", "--", *map(str, command)]
        everything = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment}
        done = subprocess.run(inside, capture_output=True, text=True, timeout=120, check=False, env=everything)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def install(self, *options: str) -> str:
        return self.run("sh", self.archive, *options, PYTHON=sys.executable)

    def as_agent(self, script: str) -> None:
        """Run a script as the agent's account, taken over by an attacker."""
        identity = ("--reuid=jobsight", "--regid=jobsight", "--clear-groups")
        self.run("setpriv", *identity, "--", "sh", "-ec", f"cd /var/spool/jobsight; {script}")

    def place(self, path: str) -> Path:
        return Path(f"/proc/{self.process}/root{path}")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory open to every user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    places = Places(tmp_path)
    places.node_token.parent.mkdir(parents=True)
    places.node_token.write_text("secret\n")
    scheduler = SchedulerSetup("slurm", "alpha", ("n1",), "", {}, lambda _user, _script: "")
    archive = tmp_path / "jobsight-node.sh"
    archive.write_bytes(node_archive(scheduler, places))
    (tmp_path / "etc-of-node").mkdir()
    made = ["unshare", "-m", "--propagation", "private", "sh", "-c", MADE, "sh", str(tmp_path / "etc-of-node")]
    process = subprocess.Popen(made, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield Node(process.pid, archive)
    finally:
        process.kill()
        process.communicate()


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Owner, mode and text of all that is in a directory, and of itself."""
    found = [folder, *folder.rglob("*")]
    return {
        str(one): (one.stat().st_uid, one.stat().st_mode, b"" if one.is_dir() else one.read_bytes()) for one in found
    }


MODULES = ("psutil", "jobsight_agent", "sitecustomize", "usercustomize", "venv", "sysconfig", "site", "types", "shutil")
COMMANDS = ("python3", "id", "env", "tar", "mktemp", "useradd", "chown", "cp", "sed", "grep", "tail", "setpriv", "sh")


def test_the_installer_runs_nothing_of_the_directory_and_the_environment_it_finds(
    node: Node, open_folder: Path
) -> None:
    ran = open_folder / "ran"
    for name in MODULES:
        (open_folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})\n")
    for name in (*COMMANDS, "started"):
        (open_folder / name).write_text(f"#!/bin/sh\necho {name} >>{ran}\n")
        (open_folder / name).chmod(0o755)
    hostile = {
        "PYTHONPATH": str(open_folder), "PYTHONSTARTUP": str(open_folder / "psutil.py"), "PYTHONINSPECT": "1",
        "PYTHONUSERBASE": str(open_folder), "PATH": f".:{open_folder}:/usr/bin:/bin", "TMPDIR": str(open_folder),
        "ENV": str(open_folder / "started"), "BASH_ENV": str(open_folder / "started"), "PWD": str(open_folder),
        "TAR_OPTIONS": f"--checkpoint=1 --checkpoint-action=exec={open_folder}/started", "LD_LIBRARY_PATH": ".",
        "PYTHON": sys.executable, "BASH_FUNC_cd%%": f"() {{ {open_folder}/started; }}",
    }  # fmt: skip
    for _ in ("install", "upgrade"):
        shutil.copy(node.archive, open_folder / "jobsight-node.sh")
        node.run("/usr/bin/env", "-C", open_folder, "/bin/sh", "jobsight-node.sh", **hostile)
    assert not ran.exists(), ran.read_text()
    assert re.fullmatch(r"[\d.]+\n", node.run("/opt/jobsight/agent/bin/jobsight-agent", "--version", **hostile))
    node.run("/usr/bin/env", "-C", open_folder, "/bin/sh", "jobsight-node.sh", "--uninstall", **hostile)
    assert not ran.exists(), ran.read_text()
    assert [*node.place("/opt").iterdir()] == [*node.place("/usr/local/lib").iterdir()] == []


@pytest.mark.parametrize("script", ["node/install.sh", "hooks/mark-job"])
@pytest.mark.parametrize("shell", ["sh", "bash", "/bin/sh", "dash"])
def test_a_script_on_standard_input_runs_no_file_of_the_shells_name(script: str, shell: str, open_folder: Path) -> None:
    for name in ("sh", "bash", "dash"):
        (open_folder / name).write_text("touch ran\n")
    deploy = Path(__file__).parents[2] / "deploy"
    with (deploy / script).open() as stream:
        done = subprocess.run([shell], stdin=stream, cwd=open_folder, capture_output=True, text=True, timeout=60)
    assert not (open_folder / "ran").exists()
    assert "run the file by its name" in done.stderr
    assert done.returncode == (2 if script == "node/install.sh" else 0)


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="systemd-tmpfiles is not installed")
def test_root_follows_no_link_that_the_agents_user_left(node: Node, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "below").mkdir(parents=True)
    for name in ("1.gz", "below/secret", "state.json", "agent.socket"):
        (victim / name).write_bytes(b"\x1f\x8b of root")
    victim.chmod(0o700)
    before = contents(victim)
    node.install()
    links = ("marks", "batches", "refused", "damaged", "lock", "reserve", "state.json", "last-error", "agent.socket")
    tools = ["/opt/jobsight/agent/bin/jobsight-agent"]
    ours = ("--spool", "/var/spool/jobsight", "--config", "/etc/jobsight/agent.toml")
    for target in (victim, victim / "state.json", victim / "missing", Path("/var/spool/jobsight")):
        node.as_agent("rm -rf ./*; " + "; ".join(f"ln -s {target} {name}" for name in links))
        node.install()
        node.run("systemd-tmpfiles", "--create", "/etc/tmpfiles.d/jobsight.conf")
        node.run("/usr/local/lib/jobsight/prologue", "7.head")
        node.run(*tools, "job-start", "7.head", *ours)
        node.run(*tools, "status", *ours, status=1)
        node.run(*tools, "resend", *ours, status=1)
        node.run(*tools, "run", *ours, status=1)
        assert contents(victim) == before, target
        assert node.place("/var/spool/jobsight").stat().st_mode & 0o7777 == 0o750
    node.as_agent(f"rm -rf ./*; mkdir -p a/b; ln -s {victim} a/b/c; ln -s {victim} marks; ln -s /etc batches")
    node.install("--uninstall")
    assert contents(victim) == before
    assert node.place("/etc/passwd").exists()
    assert not node.place("/var/spool/jobsight").exists()


def test_what_root_leaves_by_hand_is_the_agents(node: Node) -> None:
    node.install()
    agent = ("/opt/jobsight/agent/bin/jobsight-agent", "job-end", "7.head", "--strict", "--config")
    node.run(*agent, "/etc/jobsight/agent.toml")
    (mark,) = node.place("/var/spool/jobsight/marks").glob("*.json")
    owner = node.place("/var/spool/jobsight").stat().st_uid
    assert (mark.stat().st_uid, mark.parent.stat().st_uid) == (owner, owner) != (0, 0)
    assert mark.parent.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("command", [["token", "list"], ["token", "create", "--role", "scheduler"]])
def test_commands_of_root_go_on_as_the_owner_of_the_databases_directory(open_folder: Path, command: list[str]) -> None:
    """SQLite itself follows no links to the files beside a database, but one in its place."""
    nobody, folder, roots = pwd.getpwnam("nobody"), open_folder / "of-server", open_folder / "of-root"
    folder.mkdir()
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    roots.mkdir(mode=0o755)
    database = folder / "jobsight.db"

    def status(arguments: list[str]) -> int:
        child = os.fork()  # what root gives up, it does not get back
        if child == 0:
            ended = 70
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                ended = main([*arguments, "--database", str(database)])
            finally:
                os._exit(ended)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    warm_up = ["--database", str(open_folder / "warm-up.db")]  # loads what the other account need not be able to read
    assert main(["token", "create", "--role", "admin", *warm_up]) == main([*command, *warm_up]) == 0
    assert status(["token", "create", "--role", "admin"]) == 0
    assert status(command) == 0
    assert {file.owner() for file in folder.iterdir()} == {"nobody"}
    roots.chmod(0o700)
    assert status(["backup", str(roots / "copy.db")]) == 0, "root writes where root alone can"
    assert (roots / "copy.db").owner() == "root"
    (roots / "copy.db").unlink()
    assert {file.owner() for file in folder.iterdir()} == {"nobody"}
    for file in folder.iterdir():
        file.unlink()
    database.symlink_to(roots / "made")
    assert status(["backup", str(folder / "copy.db")]) == 1
    assert status(command) == 1
    assert [*roots.iterdir()] == []


def test_no_python_of_the_product_searches_the_current_directory() -> None:
    """``-m`` and ``-c`` do, unless with -P or -I: root may start it, in a directory open to others."""
    root = Path(__file__).parents[2]
    code = [file for wing in ("agent", "server", "scheduler") for file in (root / wing).rglob("*.py")]
    started = [(file, option) for file in code for option in re.findall(r'sys\.executable, "(.*?)"', file.read_text())]
    assert started
    assert {option for _, option in started} <= {"-P", "-I"}
    scripts = (root / "deploy" / "node" / "install.sh").read_text() + (root / "deploy" / "README.md").read_text()
    assert set(re.findall(r'(?:python3?"?) (-\S+)', scripts)) == {"-I"}
