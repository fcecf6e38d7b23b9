"""A real Slurm on this machine: munge, MariaDB and slurmdbd; for each cluster slurmctld and two slurmd."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.system.daemons import PATH, Daemons, free_ports, kill_all_with, run
from tests.system.slurm.leftovers import remove_cgroups
from tests.system.slurm.settings import CGROUPS, Places, cgroup_conf, mariadbd, munged, slurm_conf, slurmdbd_conf

PROGRAMS = (
    "munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacctmgr", "sbatch", "useradd",
    "userdel",
)  # fmt: skip


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


class Accounting(Daemons):
    """munge, MariaDB and slurmdbd, and the users of every cluster."""

    kind = "slurmdbd"

    def __init__(self, cleanup: contextlib.ExitStack) -> None:
        super().__init__(cleanup)
        self.environment["SLURM_CONF"] = f"{self.directory}/etc/slurm.conf"
        self.munge_socket = self.directory / "munge" / "socket"
        (self.port,) = free_ports(1)

    def start(self) -> None:
        """Start all three."""
        self._make_folders("etc", "munge", "database")
        self._add_users()
        self._start_munge()
        password = self._start_database()
        conf = self.directory / "etc" / "slurmdbd.conf"
        conf.touch(mode=0o600)
        shutil.chown(conf, "slurm")
        conf.write_text(slurmdbd_conf(self.directory, self.munge_socket, self.port, password))
        # The client library of MariaDB has the server's socket from the environment.
        self._start("slurmdbd", "-D", "-v", MYSQL_UNIX_PORT=str(self._database_socket))
        self._wait("slurmdbd", lambda: _connects(socket.AF_INET, ("localhost", self.port)))

    def _start_munge(self) -> None:
        key = self.directory / "munge" / "key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(128))
        self._start("munged", *munged(key, self.munge_socket))
        self._wait("munged", self.munge_socket.exists)

    def _start_database(self) -> str:
        """Return the password of Slurm's account in it."""
        folder = self.directory / "database"
        shutil.chown(folder, "mysql")
        data, server = folder / "data", self._database_socket
        run(
            "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={data}", "--skip-test-db",
            "--auth-root-authentication-method=socket",
        )  # fmt: skip
        self._start("mariadbd", *mariadbd(data, server))
        self._wait("mariadbd", lambda: _connects(socket.AF_UNIX, str(server)))
        password = secrets.token_hex(8)
        run(
            "mariadb", "--no-defaults", f"--socket={server}", "--execute",
            f"CREATE USER slurm@localhost IDENTIFIED BY '{password}'; GRANT ALL ON slurm.* TO slurm@localhost",
        )  # fmt: skip
        return password

    @property
    def _database_socket(self) -> Path:
        return self.directory / "database" / "socket"


class SlurmCluster(Daemons):
    """slurmctld and two slurmd on free ports, with the users of ``accounting`` and no job before their own."""

    kind = "slurm"

    def __init__(self, cleanup: contextlib.ExitStack, accounting: Accounting) -> None:
        super().__init__(cleanup)
        self.users, self.home = accounting.users, accounting.home
        self.nodes = (f"n{self.tag}a", f"n{self.tag}b")
        self.account = "physics"
        self.configuration = self.directory / "etc"
        self.environment["SLURM_CONF"] = f"{self.configuration}/slurm.conf"
        controller, *nodes = free_ports(3)
        self.places = Places(
            f"test{self.tag}", socket.gethostname(), self.directory, accounting.munge_socket, controller,
            accounting.port, dict(zip(self.nodes, nodes, strict=True)),
        )  # fmt: skip
        self._settings: dict[str, str] = {}

    def start(self) -> None:
        """Starts everything; some 3 s on an idle machine."""
        self._make_folders("etc", "state")
        for node in self.nodes:
            self._cleanup.callback(remove_cgroups, node)
        # Daemons are ended before, each by itself; jobs and their keepers are not the daemons' children.
        self._cleanup.callback(kill_all_with, f"SLURM_CONF={self.environment['SLURM_CONF']}")
        self._configure()
        self._register()
        self._start_slurm()

    def submit(self, user: str, script: str, *options: str) -> int:
        """The id of a job that runs this shell script."""
        return self.submit_and_read(user, script, *options)[0]

    def submit_and_read(self, user: str, script: str, *options: str) -> tuple[int, str]:
        """The id of a job that runs this shell script, and what sbatch says to the user.

        Raises:
            RuntimeError: sbatch refuses it; the message holds what it said.
        """
        file = self.script(user, script)
        both = ("sh", "-c", '"$@" 2>&1; exit 0', "sh", "sbatch", "--parsable", *options, str(file))
        lines = self.run(*both, user=user).splitlines()
        job_id = next((line for line in lines if line.isdigit()), None)
        if job_id is None:
            raise RuntimeError(f"sbatch {' '.join(options)}: {lines}")
        lines.remove(job_id)
        return int(job_id), "\n".join(lines)

    def comment(self, job_id: int) -> str:
        """The administrator's comment of a job, as the accounting database has it."""
        (row,) = (row for row in self.accounting() if row["job_id"] == job_id)
        return str(row["comment"]["administrator"])

    def reconfigure(self, settings: Mapping[str, str]) -> None:
        """Add these settings to slurm.conf, or replace them, and have the daemons read it."""
        self._settings |= settings
        (self.configuration / "slurm.conf").write_text(slurm_conf(self.places, memory_is_limited(), self._settings))
        self.run("scontrol", "reconfigure")
        self._wait("slurmctld", self._all_idle)

    def restart_controller(self) -> None:
        """End slurmctld and start it again: it reads every file."""
        self._daemons.pop("slurmctld").kill()
        self._start("slurmctld", "-D", "-v")
        self._wait("slurmctld", self._all_idle)

    def queue(self) -> list[dict[str, Any]]:
        """The jobs that the controller knows."""
        return list(json.loads(self.run("squeue", "--json"))["jobs"])

    def accounting(self) -> list[dict[str, Any]]:
        """The runs that the accounting database knows, each requeued job's earlier ones too."""
        return list(json.loads(self.run("sacct", "-D", "--json", "-a", "-S", "now-1day"))["jobs"])

    def _configure(self) -> None:
        shutil.chown(self.directory / "state", "slurm")
        limited = memory_is_limited()
        (self.configuration / "slurm.conf").write_text(slurm_conf(self.places, limited, self._settings))
        if limited:
            (self.configuration / "cgroup.conf").write_text(cgroup_conf())

    def _register(self) -> None:
        of_cluster = f"cluster={self.places.cluster}"
        self.run("sacctmgr", "-i", "add", "cluster", self.places.cluster)
        self.run("sacctmgr", "-i", "add", "account", self.account, of_cluster)
        self.run("sacctmgr", "-i", "add", "user", ",".join(self.users), f"account={self.account}", of_cluster)

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


def _connects(family: socket.AddressFamily, address: Any) -> bool:
    with socket.socket(family) as client:
        return client.connect_ex(address) == 0
