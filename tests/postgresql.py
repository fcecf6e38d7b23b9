"""A PostgreSQL server of the tests' own: on a Unix socket in a directory of its own, and gone with it."""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from site_run import wait_until

# No test ends the machine, so nothing needs to be on the disk.
_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=200")


_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Ask the kernel to end this process with the one that started it, however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _program(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class PostgresqlServer:
    """A new, empty server, which ``start`` and ``stop`` as often as they are called; skips where it cannot be run."""

    def __init__(self) -> None:
        programs = _program("initdb"), _program("postgres")
        if programs[0] is None or programs[1] is None:
            pytest.skip("no PostgreSQL here (Debian: postgresql), and JOBSIGHT_TEST_POSTGRESQL names none")
        initdb, self._postgres = programs
        self._directory = Path(tempfile.mkdtemp(prefix="jobsight-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        self._data, self._log = self._directory / "data", self._directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, int] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            self._as = {"user": user.pw_uid, "group": user.pw_gid}
            os.chown(self._directory, user.pw_uid, user.pw_gid)
        self.url = f"postgresql://jobsight@/postgres?host={self._directory}"
        self._run(initdb, "-A", "trust", "-U", "jobsight", "-E", "UTF8", "--no-sync", "--no-instructions")

    def start(self) -> None:
        command = [self._postgres, "-D", str(self._data), "-k", str(self._directory)]
        for option in _OPTIONS:
            command += ["-c", option]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", preexec_fn=_end_with_parent, **self._as
            )
        state = self._data / "postmaster.pid"
        wait_until(lambda: state.exists() and "ready" in state.read_text(), 60, self._log.read_text, pause_s=0.05)

    def stop(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)  # ends sessions, too
        assert self._process.wait(60) == 0, self._log.read_text()

    def remove(self) -> None:
        """End it as a crash would, where it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)
        shutil.rmtree(self._directory)

    def _run(self, program: str, *options: str) -> None:
        command = [program, "-D", str(self._data), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **self._as)
        assert done.returncode == 0, done.stderr
