"""Running processes, any of which may end while a test looks at it."""

from __future__ import annotations

from contextlib import suppress

import psutil


def children(pid: int, *, recursive: bool = False) -> dict[int, list[str]]:
    """Return the command of each child, or of all descendants; of none that has ended."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive):
            with suppress(psutil.NoSuchProcess):
                found[child.pid] = child.cmdline()
    return found


def roles(pid: int) -> dict[str, int]:
    """Return the processes of a server's roles, by the names that ``ps`` shows."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children():
            with suppress(psutil.NoSuchProcess):
                found[child.name().removeprefix("jobsight ")] = child.pid
    return found


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not an unreaped zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False
