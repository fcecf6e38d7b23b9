"""``jobsight-agent status`` and ``resend``, whether or not the spool's agent runs."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from pathlib import Path

from jobsight_agent.control import ask
from jobsight_agent.spool import LAST_ERROR, Aside

_GIVE = "give the agent's own with --spool DIRECTORY"


def status(spool: Path) -> int:
    """Print a line for each figure; return 1 if no agent runs on the spool or it cannot be read."""
    absent = ""
    try:
        figures = json.loads(_answer(spool, "status"))
    except PermissionError as error:
        return _fail("status", spool, error)
    except OSError:
        if not spool.is_dir():
            print(f"jobsight-agent status: there is no spool directory {spool}; {_GIVE}", file=sys.stderr)
            return 1
        absent = f"jobsight-agent status: no agent runs on the spool {spool}; start it, or {_GIVE}"
        try:
            figures = {
                "batches_waiting": len(list((spool / "batches").glob("[0-9]*.gz"))),
                "batches_rejected": len(Aside(spool / "refused", 0)),
                "last_error": _last_error(spool),
            }
        except OSError as error:
            return _fail("status", spool, error)
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):<18}{'-' if value is None else value}")
    if absent:
        print(absent, file=sys.stderr)
    return 1 if absent else 0


def _last_error(spool: Path) -> str | None:
    """Return the error that kept a stopped agent from sending; None without one."""
    try:
        return (spool / LAST_ERROR).read_text(encoding="utf-8", errors="replace").strip() or None
    except FileNotFoundError:
        return None


def resend(spool: Path) -> int:
    """Have rejected batches sent again, by the running agent or the next one."""
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
    """Ask the agent; return the text after ``ok``.

    Raises:
        OSError: no agent answers, or it declines.
    """
    word, _, rest = ask(spool, request).partition(" ")
    if word != "ok":
        raise PermissionError(f"the agent answered {word} {rest}")
    return rest


def _give_back(spool: Path) -> int:
    """Give rejected batches back under the agent's lock; files keep their owner, so that it can read them.

    Raises:
        OSError: no such spool, or its agent does not answer.
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
