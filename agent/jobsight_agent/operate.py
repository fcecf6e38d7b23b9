"""``jobsight-agent status`` and ``resend``: what operators ask the agent of a spool, whether it runs or not."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

from jobsight_agent.aside import Aside
from jobsight_agent.control import ask


def status(spool: Path) -> int:
    """Prints a line for each figure; 1 where the spool cannot be read."""
    try:
        figures = json.loads(_answer(spool, "status"))
    except PermissionError as error:
        return _fail("status", spool, error)
    except OSError:
        try:
            figures = {
                "batches_waiting": len(list((spool / "batches").glob("[0-9]*.gz"))),
                "batches_refused": len(Aside(spool / "refused", 0)),
                "last_error": "no agent runs on this spool" if spool.exists() else f"there is no directory {spool}",
            }
        except OSError as error:
            return _fail("status", spool, error)
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):<18}{'-' if value is None else value}")
    return 0


def resend(spool: Path) -> int:
    """Has the batches that are kept aside sent again, by the running agent or when one runs next."""
    try:
        count, when = int(_answer(spool, "resend")), "are being sent again"
    except PermissionError as error:
        return _fail("resend", spool, error)
    except OSError:
        try:
            count, when = _give_back(spool), "will be sent again when the agent runs"
        except OSError as error:
            return _fail("resend", spool, error)
    print(f"{count} batches {when}")
    return 0


def _answer(spool: Path, request: str) -> str:
    """What follows ``ok``.

    Raises:
        OSError: no agent answers, or it does not want to.
    """
    word, _, rest = ask(spool, request).partition(" ")
    if word != "ok":
        raise PermissionError(f"the agent answered {word} {rest}")
    return rest


def _give_back(spool: Path) -> int:
    """Under the agent's own lock; files keep their owner, so that it can read them.

    Raises:
        OSError: there is no such spool, or an agent holds it that does not answer.
    """
    lock = os.open(spool / "lock", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return len(Aside(spool / "refused", 0).give_back(spool / "batches"))
    finally:
        os.close(lock)


def _fail(command: str, spool: Path, error: OSError) -> int:
    print(f"jobsight-agent {command}: spool {spool}: {error}; run it as root or as the agent's user", file=sys.stderr)
    return 1
