"""A real Grid Engine on this machine: sge_qmaster and sge_execd in one temporary directory."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
from pathlib import Path

from tests.system.daemons import Daemons, free_ports, kill_all_with
from tests.system.gridengine import settings

PROGRAMS = ("sge_qmaster", "sge_execd", "spoolinit", "spooldefaults", "qconf", "qsub", "qrsh", "qmod")


def missing() -> str:
    """Why no cluster can be made here; empty where one can."""
    if os.geteuid() != 0:
        return "a Grid Engine of its own needs root"
    if absent := [name for name in PROGRAMS if not (settings.LIBRARY / name).exists()]:
        return f"a Grid Engine of its own needs {', '.join(absent)} in {settings.LIBRARY}"
    if absent := [name for name in ("useradd", "userdel") if shutil.which(name) is None]:
        return f"a Grid Engine of its own needs {', '.join(absent)}"
    return "" if Path("/usr/bin/python3").exists() else "the jobs of a Grid Engine need /usr/bin/python3"


class GridEngineCluster(Daemons):
    """Daemons on free ports with a cell and users of their own."""

    kind = "gridengine"

    def __init__(self, cleanup: contextlib.ExitStack) -> None:
        super().__init__(cleanup)
        self.host = socket.gethostname()
        self.root = self.directory / "root"
        self.common = self.root / "default" / "common"
        self.accounting = self.common / "accounting"
        qmaster, execd = free_ports(2)
        self.environment |= {
            "PATH": f"{self.environment['PATH']}:{settings.LIBRARY}",
            "SGE_ROOT": str(self.root),
            "SGE_CELL": "default",
            "SGE_ARCH": "lx-amd64",
            "SGE_QMASTER_PORT": str(qmaster),
            "SGE_EXECD_PORT": str(execd),
            "SGE_SINGLE_LINE": "1",
        }

    def start(self) -> None:
        """Starts everything; some 4 s on an idle machine."""
        self._make_folders("qmaster", "execd", "etc", "tmp")
        self._add_users()
        self._make_cell()
        # Without it they go to the background.
        self._start("sge_qmaster", SGE_ND="1")
        self._wait("sge_qmaster", lambda: self.succeeds("qconf", "-sss"))
        self._configure()
        self._start("sge_execd", SGE_ND="1")
        # Jobs and their shepherds too, which are not its children; and the qmaster would take 5 s to end by itself.
        self._cleanup.callback(kill_all_with, f"SGE_ROOT={self.root}")
        self._wait("sge_execd", self._has_reported)

    def submit(self, user: str, script: str, *options: str) -> int:
        """The number of a job that runs this shell script, or of an array."""
        printed = self.run("qsub", "-terse", "-j", "y", *options, str(self.script(user, script)), user=user)
        return int(printed.split(".")[0])

    def states(self) -> dict[int, str]:
        """State of each unfinished job in qstat: ``r`` running, ``qw`` waiting."""
        lines = self.run("qstat", "-u", "*").splitlines()[2:]
        return {int(line.split()[0]): line.split()[4] for line in lines}

    def install(self, settings_of_queue: dict[str, str]) -> None:
        """Give the queue these settings."""
        for name, value in settings_of_queue.items():
            self.run("qconf", "-mattr", "queue", name, value, settings.QUEUE)

    def _make_cell(self) -> None:
        for kind in ("bin", "lib", "utilbin"):
            (self.root / kind).mkdir(parents=True)
            (self.root / kind / self.environment["SGE_ARCH"]).symlink_to(settings.LIBRARY)
        (self.root / "util").symlink_to(settings.SHARE / "util")
        self.common.mkdir(parents=True)
        spool, names = self.directory / "qmaster", dict.fromkeys((self.host, socket.getfqdn(), "localhost"))
        (self.common / "bootstrap").write_text(settings.bootstrap(self.common, spool))
        (self.common / "act_qmaster").write_text(f"{self.host}\n")
        self.accounting.touch()  # else it appears when the first job ends, and a server complains until then
        # Whichever name an address of this machine resolves to.
        (self.common / "host_aliases").write_text(f"{' '.join(names)}\n")
        first_group = 200_000 + secrets.randbelow(10_000) * 100
        conf = self._file("global", settings.configuration(self.directory / "execd", first_group))
        self.run("spoolinit", "classic", "libspoolc", f"{self.common};{spool}", "init")
        resources = settings.SHARE / "util" / "resources"
        self.run("spooldefaults", "configuration", conf)
        self.run("spooldefaults", "complexes", str(resources / "centry"))
        self.run("spooldefaults", "usersets", str(resources / "usersets"))
        self.run("spooldefaults", "managers", "root", "sgeadmin")
        for folder in (self.common, *self.common.rglob("*"), spool, *spool.rglob("*"), self.directory / "execd"):
            shutil.chown(folder, "sgeadmin")

    def _configure(self) -> None:
        self.run("qconf", "-as", self.host)
        for name in settings.ENVIRONMENTS:
            self.run("qconf", "-Ap", self._file(name, settings.parallel_environment(name)))
        self.run("qconf", "-Aq", self._file("queue", self._queue()))
        self.run("qconf", "-Msconf", self._file("scheduler", settings.scheduler(self.run("qconf", "-ssconf"))))

    def _queue(self) -> str:
        tmp = self.directory / "tmp"
        tmp.chmod(0o1777)
        return settings.queue(self.run("qconf", "-sq"), self.host, tmp)

    def _has_reported(self) -> bool:
        """The host is known with its processors, and its queue has no state that keeps jobs waiting."""
        lines = self.run("qstat", "-f").splitlines()
        return any(line.startswith(f"{settings.QUEUE}@") and len(line.split()) == 5 for line in lines)

    def _file(self, name: str, text: str) -> str:
        file = self.directory / "etc" / name
        file.write_text(text)
        return str(file)
