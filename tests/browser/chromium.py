"""Finds a Chromium for the tests, or installs one: once, within bounded time, and saying so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

DRIVER = (sys.executable, "-m", "playwright", "--version")
INSTALL = (sys.executable, "-m", "playwright", "install", "chromium")
SECONDS = 180.0
# The first takes half the processor time of the others: it has no windows, menus and extensions to start.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")


class NoChromiumError(Exception):
    """There is none; the message says what was tried."""


def check_driver(command: Sequence[str] = DRIVER, seconds: float = SECONDS) -> None:
    """Playwright's driver is a program of its own, which needs libraries that a bare machine lacks.

    Raises:
        NoChromiumError: it does not start.
    """
    why = _failure(command, seconds)
    if why is not None:
        raise NoChromiumError(f"playwright's driver does not start: {why}")


def find_chromium(
    own: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str] = os.environ,
    install: Sequence[str] = INSTALL,
    seconds: float = SECONDS,
) -> Path:
    """The machine's own Chromium, else the one at ``own``, where ``install`` puts it, after trying that once.

    Raises:
        NoChromiumError: it cannot be installed within ``seconds``, as without a network.
    """
    found = environment.get("JOBSIGHT_CHROMIUM") or next(
        filter(None, (shutil.which(name, path=environment.get("PATH")) for name in PROGRAMS)), None
    )
    if found is not None or own.exists():
        return Path(found) if found is not None else own
    say(f"no Chromium on this machine: trying `playwright install chromium`, for {seconds:g} s at most")
    why = _failure(install, seconds)
    if why is None and not own.exists():
        why = f"it left nothing at {own}"
    if why is not None:
        say(f"`playwright install chromium` failed: {why}")
        raise NoChromiumError("no Chromium, and `playwright install chromium` failed (set JOBSIGHT_CHROMIUM)")
    say(f"installed {own}")
    return own


def _failure(command: Sequence[str], seconds: float) -> str | None:
    """Run it; None, or why it failed. Its children, which do the download, end with it."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return f"not done within {seconds:g} s"
    lines = said.strip().splitlines()
    return None if process.returncode == 0 else f"status {process.returncode}: {lines[-1] if lines else 'no output'}"
