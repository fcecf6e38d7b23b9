"""What daemons leave on a machine: processes, cgroups."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from pathlib import Path

from .settings import CGROUPS


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a daemon, by force where it does not end by itself, and what is left of its session."""
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


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


def remove_cgroups(node: str, seconds: float = 30) -> None:
    """Removes the directories that a slurmd leaves, once processes that have ended are gone from them.

    Raises:
        OSError: something still runs in one.
    """
    deadline = time.monotonic() + seconds
    while tops := list(CGROUPS.glob(f"*/slurm_{node}")):
        try:
            for top in tops:
                for folder in sorted(top.rglob("*/"), key=lambda found: len(found.parts), reverse=True):
                    folder.rmdir()
                top.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
