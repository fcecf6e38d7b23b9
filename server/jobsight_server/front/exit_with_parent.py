"""Ends a child process when its parent is gone, even if it was killed."""

from __future__ import annotations

import os
import signal
import threading
import time

_GRACE_S = 30.0


def exit_with_parent(descriptor: int = 0, grace_s: float = _GRACE_S) -> None:
    """End this process when standard input, a pipe from the parent, closes.

    It gets SIGTERM first and, if it still runs ``grace_s`` seconds later, SIGKILL: no parent is left to do it.
    """
    threading.Thread(target=_wait, args=(descriptor, grace_s), daemon=True).start()


def _wait(descriptor: int, grace_s: float) -> None:
    # Bypasses Python's buffer: its lock would be held while the interpreter shuts down.
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace_s)
    os.kill(os.getpid(), signal.SIGKILL)
