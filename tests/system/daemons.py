"""Daemons of a real scheduler on this machine, in a temporary directory, with users of their own."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Self

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class Daemons:
    """What every scheduler's cluster needs; nothing of it is left after the block of ``made``.

    ``environment`` lets the scheduler's commands find this cluster.
    """

    kind: ClassVar[str]

    def __init__(self, cleanup: contextlib.ExitStack) -> None:
        self.tag = secrets.token_hex(2)
        self.users = tuple(f"u{self.tag}{letter}" for letter in "abc")
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.kind}-"))
        self._cleanup = cleanup
        cleanup.callback(shutil.rmtree, self.directory)
        self.directory.chmod(0o755)
        self.home = self.directory / "home"
        self.environment = {"PATH": PATH, "LANG": "C.UTF-8"}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    @contextlib.contextmanager
    def made(cls) -> Iterator[Self]:
        """A cluster that can be started in the block."""
        with contextlib.ExitStack() as cleanup:
            yield cls(cleanup)

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

    def succeeds(self, *command: str) -> bool:
        """Whether root's command does."""
        try:
            self.run(*command)
        except RuntimeError:
            return False
        return True

    def script(self, user: str, text: str) -> Path:
        """A new shell script in a user's home."""
        file = self.home / user / f"{secrets.token_hex(4)}.sh"
        file.write_text(f"#!/bin/sh\n{text}\n")
        return file

    def log(self, daemon: str) -> str:
        """The end of what a daemon said."""
        return (self.directory / "log" / daemon).read_text(errors="replace")[-4000:]

    def _make_folders(self, *names: str) -> None:
        for name in ("log", *names):
            (self.directory / name).mkdir(mode=0o755)

    def _add_users(self) -> None:
        self.home.mkdir(mode=0o755)
        for user in self.users:
            home = self.home / user
            run("useradd", "--no-log-init", "--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", user)
            self._cleanup.callback(run, "userdel", user)
            home.mkdir(mode=0o755)
            shutil.chown(home, user)

    def _start(self, daemon: str, *options: str, program: str = "", **environment: str) -> None:
        path = shutil.which(program or daemon, path=self.environment["PATH"])
        assert path is not None
        with (self.directory / "log" / daemon).open("ab") as output:
            process = subprocess.Popen(
                [path, *options], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                cwd="/", env={**self.environment, **environment},
            )  # fmt: skip
        self._daemons[daemon] = process
        self._cleanup.callback(_end, process)

    def _wait(self, daemon: str, condition: Callable[[], bool], seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            gone = [name for name, process in self._daemons.items() if process.poll() is not None]
            if gone or time.monotonic() > deadline:
                blamed = gone[0] if gone else daemon
                raise RuntimeError(f"{blamed} {'has ended' if gone else 'is not ready'}:\n{self.log(blamed)}")
            time.sleep(0.05)


def run(*command: str) -> None:
    """Run a command of the machine.

    Raises:
        RuntimeError: it failed; the message holds what it said.
    """
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")


def free_ports(count: int) -> list[int]:
    """Ports that were free just now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def kill_all_with(variable: str, seconds: float = 10) -> None:
    """Kills the processes that have this in their environment, what they start meanwhile too, and waits for the end.

    Raises:
        TimeoutError: some do not end.
    """
    deadline = time.monotonic() + seconds
    while left := [int(entry.name) for entry in Path("/proc").iterdir() if variable in _environment(entry)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {left} do not end")
        time.sleep(0.05)


def _environment(entry: Path) -> list[str]:
    """The environment that a process was started with; empty of what is none, or is gone."""
    with contextlib.suppress(OSError):
        return (entry / "environ").read_bytes().decode(errors="replace").split("\0")
    return []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a daemon, as nothing is read of what it would write at its end, and what is left of its session."""
    process.kill()
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
