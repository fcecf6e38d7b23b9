"""Runs commands of the scheduler and of the system."""

from __future__ import annotations

import os
import pwd
import subprocess
import time
from collections.abc import Callable, Sequence

from jobsight_server.ground.errors import UserError
from jobsight_server.setup.manifest import Manifest

_LIMIT_S = 60.0
_EFFECT_S = 5.0


def run(command: Sequence[str], user: str | None = None, given: str = "") -> str:
    """Return the output of a command run as ``user`` (if that is not the current user), with ``given`` as its input.

    Raises:
        UserError: it is missing, failed, or took more than a minute; the message includes its output.
    """
    identity = {}
    environment = dict(os.environ)
    if user is not None and (account := pwd.getpwnam(user)).pw_uid != os.geteuid():
        groups = os.getgrouplist(user, account.pw_gid)
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
        environment |= {"HOME": account.pw_dir, "USER": user, "LOGNAME": user}
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, cwd="/",
            env=environment, **identity,
        )  # type: ignore[call-overload]  # fmt: skip
    except FileNotFoundError as error:
        raise UserError(f"{command[0]}: no such command; run this on a host with the scheduler's commands") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{' '.join(command)}: {error}") from error
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise UserError(f"{' '.join(command)}: status {done.returncode}: {output or 'no output'}")
    return str(done.stdout)


def check_user(user: str) -> None:
    """Require the user of ``--user``.

    Raises:
        UserError: there is none.
    """
    try:
        pwd.getpwnam(user)
    except KeyError as error:
        raise UserError(f"--user {user!r}: no such user") from error


def succeeds(command: Sequence[str], user: str | None = None) -> bool:
    """Return whether a command can be run and ends with 0."""
    try:
        run(command, user)
    except UserError:
        return False
    return True


def undo(manifest: Manifest, program: str, applies: Callable[[list[str]], bool], say: Callable[[str], None]) -> None:
    """Take the commands of a program that undo something out of the manifest, and run those that still apply."""
    for command in manifest.take_undo(program):
        if applies(command):
            run(command)
            say(f"ran {' '.join(command)}")


def until_empty(find: Callable[[], list[str]], seconds: float = _EFFECT_S) -> list[str]:
    """Return the result of ``find`` once empty, or after the time limit: a scheduler may need a moment to read it."""
    deadline = time.monotonic() + seconds
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found
