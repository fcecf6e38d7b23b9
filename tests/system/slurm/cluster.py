"""A real Slurm on this machine: munge, MariaDB, slurmdbd, slurmctld and two slurmd, all in one temporary directory."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .leftovers import end, kill_all_with, remove_cgroups
from .settings import CGROUPS, Places, cgroup_conf, mariadbd, munged, slurm_conf, slurmdbd_conf

PROGRAMS = (
    "munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacctmgr", "sbatch", "useradd",
    "userdel",
)  # fmt: skip
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def missing() -> str:
    """Why no cluster can be made here; empty where one can."""
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    if absent := [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]:
        return f"a Slurm of its own needs {', '.join(absent)}"
    if not Path("/usr/bin/python3").exists():
        return "the jobs of a Slurm need /usr/bin/python3"
    libraries = [Path("/usr/share/lua/5.1/socket.lua").exists(), *Path("/usr/lib").glob("*/lua/5.1/cjson.so")]
    return "" if all(libraries) and len(libraries) > 1 else "job_submit.lua needs lua-socket and lua-cjson"


def memory_is_limited() -> bool:
    """Slurm can hold jobs in cgroups here: version 1 is mounted, and this process may add to it."""
    return all(os.access(CGROUPS / name / "cgroup.procs", os.W_OK) for name in ("memory", "freezer", "cpuacct"))


class SlurmCluster:
    """Daemons on free ports and users of its own; nothing of either is left after the block of ``made``.

    ``environment`` lets Slurm's commands find this cluster.
    """

    def __init__(self, cleanup: contextlib.ExitStack) -> None:
        tag = secrets.token_hex(2)
        self.nodes = (f"n{tag}a", f"n{tag}b")
        self.users = tuple(f"u{tag}{letter}" for letter in "abc")
        self.account = "physics"
        self.directory = Path(tempfile.mkdtemp(prefix="slurm-"))
        self._cleanup = cleanup
        cleanup.callback(shutil.rmtree, self.directory)
        self.directory.chmod(0o755)
        self.home = self.directory / "home"
        self.configuration = self.directory / "etc"
        self.environment = {"PATH": PATH, "SLURM_CONF": f"{self.configuration}/slurm.conf", "LANG": "C.UTF-8"}
        controller, database, *nodes = _free_ports(4)
        self.places = Places(
            f"test{tag}", socket.gethostname(), self.directory, self.directory / "munge" / "socket", controller,
            database, dict(zip(self.nodes, nodes, strict=True)),
        )  # fmt: skip
        self._settings: dict[str, str] = {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    @contextlib.contextmanager
    def made(cls) -> Iterator[SlurmCluster]:
        """A cluster that can be started in the block."""
        with contextlib.ExitStack() as cleanup:
            yield cls(cleanup)

    def start(self) -> None:
        """Starts everything; some 5 s on an idle machine."""
        for name in ("etc", "log", "state", "munge", "database", "home"):
            (self.directory / name).mkdir(mode=0o755)
        self._add_users()
        self._start_munge()
        password = self._start_database()
        self._configure(password)
        self._start_slurmdbd()
        self._start_slurm()

    def run(self, *command: str, user: str | None = None, timeout: float = 30) -> str:
        """What a command prints, as root or another user, in that user's home.

        Raises:
            RuntimeError: it failed; the message holds what it said.
        """
        account = pwd.getpwnam(user or "root")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
            user=account.pw_uid, group=account.pw_gid, extra_groups=[],
            cwd=self.home / user if user else self.directory, env=self.environment,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, user: str, script: str, *options: str) -> int:
        """The id of a job that runs this shell script."""
        file = self.home / user / f"{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        return int(self.run("sbatch", "--parsable", *options, str(file), user=user).split(";")[0])

    def reconfigure(self, settings: Mapping[str, str]) -> None:
        """Adds these settings to slurm.conf, or replaces them, and has the daemons read it."""
        self._settings |= settings
        (self.configuration / "slurm.conf").write_text(slurm_conf(self.places, memory_is_limited(), self._settings))
        self.run("scontrol", "reconfigure")
        self._wait("slurmctld", self._all_idle)

    def queue(self) -> list[dict[str, Any]]:
        """The jobs that the controller knows."""
        return list(json.loads(self.run("squeue", "--json"))["jobs"])

    def accounting(self) -> list[dict[str, Any]]:
        """The runs that the accounting database knows, each requeued job's earlier ones too."""
        return list(json.loads(self.run("sacct", "-D", "--json", "-a", "-S", "now-1day"))["jobs"])

    def log(self, daemon: str) -> str:
        """The end of what a daemon said."""
        return (self.directory / "log" / daemon).read_text(errors="replace")[-4000:]

    def _add_users(self) -> None:
        for user in self.users:
            home = self.home / user
            _run("useradd", "--no-log-init", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", user)
            self._cleanup.callback(_run, "userdel", user)
            home.mkdir(mode=0o755)
            shutil.chown(home, user)
        for node in self.nodes:
            self._cleanup.callback(remove_cgroups, node)
        # Daemons are ended before, each by itself; jobs and their keepers are not the daemons' children.
        self._cleanup.callback(kill_all_with, f"SLURM_CONF={self.environment['SLURM_CONF']}")

    def _start_munge(self) -> None:
        key = self.directory / "munge" / "key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(128))
        self._start("munged", *munged(key, self.places))
        self._wait("munged", self.places.munge_socket.exists)

    def _start_database(self) -> str:
        """Returns the password of Slurm's account in it."""
        folder = self.directory / "database"
        shutil.chown(folder, "mysql")
        data, server = folder / "data", self._database_socket
        _run(
            "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}", "--skip-test-db",
            "--auth-root-authentication-method=socket",
        )  # fmt: skip
        self._start("mariadbd", *mariadbd(data, server))
        self._wait("mariadbd", lambda: _connects(server))
        password = secrets.token_hex(8)
        _run(
            "mariadb", "--no-defaults", f"--socket={server}", "--execute",
            f"CREATE USER slurm@localhost IDENTIFIED BY '{password}'; GRANT ALL ON slurm.* TO slurm@localhost",
        )  # fmt: skip
        return password

    @property
    def _database_socket(self) -> Path:
        return self.directory / "database" / "socket"

    def _configure(self, password: str) -> None:
        shutil.chown(self.directory / "state", "slurm")
        limited = memory_is_limited()
        (self.configuration / "slurm.conf").write_text(slurm_conf(self.places, limited, self._settings))
        if limited:
            (self.configuration / "cgroup.conf").write_text(cgroup_conf())
        database = self.configuration / "slurmdbd.conf"
        database.touch(mode=0o600)
        shutil.chown(database, "slurm")
        database.write_text(slurmdbd_conf(self.places, password))

    def _start_slurmdbd(self) -> None:
        # The client library of MariaDB has the server's socket from the environment.
        self._start("slurmdbd", "-D", "-v", MYSQL_UNIX_PORT=str(self._database_socket))
        self._wait("slurmdbd", lambda: self._succeeds("sacctmgr", "-n", "list", "cluster"))
        self.run("sacctmgr", "-i", "add", "cluster", self.places.cluster)
        self.run("sacctmgr", "-i", "add", "account", self.account)
        self.run("sacctmgr", "-i", "add", "user", ",".join(self.users), f"account={self.account}")

    def _start_slurm(self) -> None:
        self._start("slurmctld", "-D", "-v", "-c")
        for node in self.nodes:
            (self.directory / f"spool.{node}").mkdir(mode=0o755)
            self._start(f"slurmd {node}", "-D", "-v", "-N", node, program="slurmd")
        self._wait("slurmctld", self._all_idle)

    def _all_idle(self) -> bool:
        try:
            states = self.run("sinfo", "-h", "-N", "-o", "%T").split()
        except RuntimeError:
            return False
        return states == ["idle"] * len(self.nodes)

    def _succeeds(self, *command: str) -> bool:
        try:
            self.run(*command)
        except RuntimeError:
            return False
        return True

    def _start(self, daemon: str, *options: str, program: str = "", **environment: str) -> None:
        path = shutil.which(program or daemon, path=PATH)
        assert path is not None
        with (self.directory / "log" / daemon).open("ab") as output:
            process = subprocess.Popen(
                [path, *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                cwd="/", env={**self.environment, **environment},
            )  # fmt: skip
        self._daemons[daemon] = process
        self._cleanup.callback(end, process)

    def _wait(self, daemon: str, condition: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            gone = [name for name, process in self._daemons.items() if process.poll() is not None]
            if gone or time.monotonic() > deadline:
                blamed = gone[0] if gone else daemon
                raise RuntimeError(f"{blamed} {'has ended' if gone else 'is not ready'}:\n{self.log(blamed)}")
            time.sleep(0.05)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")


def _connects(server: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(server)) == 0


def _free_ports(count: int) -> list[int]:
    """Ports that were free just now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [int(each.getsockname()[1]) for each in sockets]
